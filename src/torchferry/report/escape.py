"""Texts of a project made visible: nothing in them is lost on the reader or turns the text around."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    """Return a text with control characters, bidirectional marks and undecodable bytes written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_seen(char) else _escaped(char) for char in text)


def _is_seen(char: str) -> bool:
    return char.isprintable() or char == "\t" or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
