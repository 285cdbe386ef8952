"""Patterns of whole lines, tried only where a word stands that each match holds.

A search for `^...` tries every line of a text, which takes many times as long as a search for a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import AnyStr


def line_matches(pattern: re.Pattern[AnyStr], word: AnyStr, text: AnyStr) -> Iterator[re.Match[AnyStr]]:
    r"""Yield what `pattern.finditer(text)` does.

    Args:
        pattern: A pattern that begins with `^`, compiled with `re.MULTILINE`.
        word: What stands in the first line of each match.
        text: The text.
    """
    newline = text[:0] + ("\n" if isinstance(text, str) else b"\n")
    end = 0  # of what was read: matches do not overlap, and no line is tried twice
    at = text.find(word)
    while at >= 0:
        start = text.rfind(newline, 0, at) + 1
        if start >= end:
            match = pattern.match(text, start)
            if match is not None:
                yield match
            end = start + 1 if match is None else match.end()
        at = text.find(word, max(at + 1, end))
