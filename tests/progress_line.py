"""The line that says how far a command is, drawn without a clock, and what a terminal shows of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from torchferry.core import progress
from torchferry.core.messages import display_width

SERVICES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")

DRAWN = re.compile(r"\r(?:[^\r\n]*\r)+")
"""What the line writes, from its first drawing to its end."""


def drawn_at_once(patch: pytest.MonkeyPatch) -> None:
    """Have the line drawn whenever something is said, and not when a second has passed."""
    for name in SERVICES:
        patch.delenv(name, raising=False)
    patch.setenv("TERM", "xterm")
    patch.setattr(progress, "_PATIENCE", 0.0)
    for place, name in ((progress._Line, "begin"), (progress.Work, "add"), (progress.Work, "reach")):
        patch.setattr(place, name, _then_drawn(getattr(place, name)))


def _then_drawn(method: Callable[..., None]) -> Callable[..., None]:
    def drawing(*arguments: Any) -> None:
        method(*arguments)
        progress._line.draw()

    return drawing


def lines_drawn(written: bytes) -> list[str]:
    """Return the texts that the line had, one after the other."""
    text = written.decode().replace("\r\n", "\n")
    return [part.rstrip() for drawn in DRAWN.findall(text) for part in drawn.split("\r") if part.strip()]


def screen(written: bytes) -> list[str]:
    """Return the lines that a terminal shows in the end, where nothing but returns moves the cursor."""
    rows: list[dict[int, str]] = [{}]
    column = 0
    for letter in written.decode():
        if letter == "\n":
            rows.append({})
        elif letter == "\r":
            column = 0
        else:
            rows[-1][column] = letter
            if display_width(letter) == 2:
                rows[-1][column + 1] = ""
            column += display_width(letter)
    return ["".join(row[at] for at in sorted(row)).rstrip() for row in rows]
