"""Times, sizes and commands as people write them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from torchferry.core.secrets import MASK, masked_command

_SHELL = re.compile(r"(?:[|&;<>]+|\d?[<>].*|\$\(.*|`.*)\Z", re.DOTALL)
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(s|m|min|h|d)?\Z")
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(B|KiB|MiB|GiB)?\Z")
_SIZES = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def duration(text: str) -> float:
    """Return seconds: `90`, `90 s`, `30 min`, `2h`.

    Raises:
        ValueError: it is none.
    """
    match = _DURATION.match(text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(text)
    return float(match[1]) * _SECONDS[match[2]]


def size(text: str) -> float:
    """Return bytes: `1 MiB`, `512`.

    Raises:
        ValueError: it is none.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _SIZES[match[2]]


def readable(count: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def words(value: str | list[str]) -> tuple[str, ...]:
    """Return the words of a command: a list as it is, a text as a shell splits it, without anything that needs a shell.

    Raises:
        ValueError: it is empty, a quote is open, or a word of it is for a shell; the error names it.
    """
    split = tuple(shlex.split(value)) if isinstance(value, str) else tuple(value)
    if not split or not split[0]:
        raise ValueError("it is empty")
    if isinstance(value, str):
        for word in split:
            if _SHELL.match(word) or word.endswith(";") or "\n" in word:
                raise ValueError(word)
    return split


def shell_word(value: str) -> str | None:
    """Return why a text is no command without a shell: the word that is for one; None where it is a command."""
    try:
        words(value)
    except ValueError as error:
        return str(error)
    return None


def hidden(command: Iterable[str]) -> list[str]:
    """Return the words of a command without what looks like a password or a token."""
    return masked_command(list(command))


def typed(command: Iterable[str]) -> str:
    """Return a command as one types it, without what looks like a password or a token."""
    return " ".join(word if word == MASK else shlex.quote(word) for word in hidden(command))
