"""JSON text that is valid UTF-8 and shows what it holds, whatever the names of files are."""

from __future__ import annotations

import json
from typing import Any

from torchferry.core.terminal import visible


def json_text(document: Any, indent: int | None = 1, *, allow_nan: bool = True) -> str:
    """Return a value as JSON text with a line end behind it, as `visible_json` returns it."""
    return visible_json(json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=allow_nan)) + "\n"


def visible_json(text: str) -> str:
    """Return JSON text in which all that is not drawn as itself is escaped, and with it the bytes that are no UTF-8.

    Outside of its strings JSON has none of that but line ends, so the value is the same.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "\n".join(line if visible(line) == line else "".join(map(_escaped, line)) for line in text.split("\n"))


def _escaped(character: str) -> str:
    return character if visible(character) == character else json.dumps(character)[1:-1]
