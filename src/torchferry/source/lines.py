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
        word: The content of the first line of each match.
        text: The text.
    """
    newline = text[:0] + ("\n" if isinstance(text, str) else b"\n")
    at = text.find(word)
    while at >= 0:
        match = pattern.match(text, text.rfind(newline, 0, at) + 1)
        if match is not None:
            yield match
        # no line is tried twice, and matches do not overlap
        line_end = text.find(newline, at if match is None else max(match.end() - 1, match.start()))
        at = text.find(word, line_end + 1) if line_end >= 0 else -1
