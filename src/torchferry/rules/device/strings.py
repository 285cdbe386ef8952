"""Where the word to change stands inside a string literal, and what it becomes on the target."""

from __future__ import annotations

import ast
import re

from torchferry.core.finding import Edit
from torchferry.rules.base import PythonContext


def word_edits(context: PythonContext, node: ast.Constant, word: str, replacement: str) -> list[Edit]:
    """Return edits that replace `word` inside a string literal, or inside a literal part of an f-string.

    Raises:
        ValueError: the source of the literal does not spell the word as often as its value does.
    """
    joined = context.file.fstring_of(node)
    if joined is not None and node in joined.values:
        start, end = context.file.fstring(joined).literal(node)
    else:
        start, end = context.file.span(node)
    found = [match.start() for match in re.finditer(re.escape(word), context.text[start:end])]
    if not isinstance(node.value, str) or len(found) != node.value.count(word):
        raise ValueError(f"the literal spells `{word}` in another form")
    return [Edit(start + at, start + at + len(word), replacement) for at in found]


def literal_span(context: PythonContext, node: ast.Constant) -> tuple[int, int]:
    """Return the span to report for a string literal: itself, or the f-string that it is a part of."""
    joined = context.file.fstring_of(node)
    if joined is not None and node in joined.values:
        return context.file.span(joined)
    return context.file.span(node)
