"""The syntax tree of an edited text, made from that of the text before.

Parsing is the most expensive part of reading a file, and fixes touch few of its statements. Where they change no line
breaks, only the statements whose lines they touch are parsed again, each by itself on the lines that it has; all others
stay where they are, and are taken over. The tree before is not changed: what holds a new statement is copied.

A statement that parses by itself also parses in its place: it begins its own line and so does what follows it, its
lines are taken whole, and Python's grammar asks nothing of the context of a statement but its indentation, which
is kept. What does not parse by itself, or becomes more than one statement, is left to a parse of the whole text.
"""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TypeVar

from torchferry.core.finding import Edit
from torchferry.core.record import NamedTuple
from torchferry.source.text import SourceText

_Node = TypeVar("_Node", bound=ast.AST)

_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
"""Fields that hold statements, or what holds statements."""


class _WholeTextError(Exception):
    """The text has to be parsed as a whole."""


def reparsed(tree: ast.Module, before: SourceText, after: SourceText, edits: Iterable[Edit]) -> ast.Module | None:
    """Return the tree of a text made by some edits, equal to what parsing it gives; None where it has to be parsed.

    Args:
        tree: The tree of the text before.
        before: The text before.
        after: The text that the edits made of it.
        edits: The edits.
    """
    if "\r" in before.text or "\f" in before.text or "barry_as_FLUFL" in before.text:
        return None
    lines: set[int] = set()
    for edit in edits:
        if any(mark in text for text in (edit.text, before.text[edit.start : edit.end]) for mark in "\r\n\f"):
            return None
        lines.add(before.position(edit.start)[0])
    try:
        return _Reparse(before, after, sorted(lines)).module(tree)
    except _WholeTextError:
        return None


class _Changed(NamedTuple):
    """A statement of the tree before, and what takes its place."""

    before: ast.stmt
    after: ast.stmt


class _Reparse:
    def __init__(self, before: SourceText, after: SourceText, lines: list[int]) -> None:
        self._before = before
        self._after = after
        self._lines = lines

    def module(self, tree: ast.Module) -> ast.Module:
        done: list[int] = []
        body = [changed.after for changed in self._statements(tree.body, nested=False, done=done)]
        if done != self._lines:  # beside all statements: perhaps in a comment, which may say how the file is read
            raise _WholeTextError
        return ast.Module(body, tree.type_ignores)

    def _statements(self, body: list[ast.stmt], nested: bool, done: list[int]) -> Iterator[_Changed]:
        """Yield the statements of a block with what takes their place, themselves where no edit touches them.

        Args:
            body: The block.
            nested: Whether it is indented.
            done: Takes the lines of edits that statements of the block have.
        """
        for index, statement in enumerate(body):
            first, last = _first_line(statement), statement.end_lineno or 0
            own = self._lines[bisect_left(self._lines, first) : bisect_left(self._lines, last + 1)]
            if not own:
                yield _Changed(statement, statement)
                continue
            if not self._begins_line(statement) or (index + 1 < len(body) and not self._begins_line(body[index + 1])):
                raise _WholeTextError
            done += own
            yield _Changed(statement, self._inside(statement, own) or self._parsed(statement, nested))

    def _inside(self, node: ast.stmt, lines: list[int]) -> ast.stmt | None:
        """Return a statement with new ones in its blocks; None where an edit touches what is in none of them."""
        done: list[int] = []
        try:
            copied = self._blocks(node, done)
        except _WholeTextError:
            return None
        return copied if done == lines else None

    def _blocks(self, node: _Node, done: list[int]) -> _Node:
        """Return a copy of a node with new statements in its blocks; it ends where its last statement does."""
        copied = _copy(node)
        for field in _BLOCKS:
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            if field in ("handlers", "cases"):
                pairs = [(part, self._blocks(part, done)) for part in block]
            else:
                pairs = list(self._statements(block, nested=True, done=done))
            setattr(copied, field, [after for _, after in pairs])
            for before, after in pairs[-1:]:
                if not isinstance(node, ast.match_case) and _end(before) == _end(node):
                    copied.end_lineno, copied.end_col_offset = _end(after)  # type: ignore[attr-defined]
        return copied

    def _parsed(self, statement: ast.stmt, nested: bool) -> ast.stmt:
        """Parse what is on the lines of a statement."""
        first, last = _first_line(statement), statement.end_lineno or 0
        starts = self._after.starts
        text = self._after.text[starts[first - 1] : starts[last] if last < len(starts) else None]
        around = "if 1:\n" if nested else ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                body = ast.parse(around + text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise _WholeTextError from None
        if nested and len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
            body = body[0].body
        elif nested:
            raise _WholeTextError
        if len(body) != 1 or _first_line(body[0]) != 1 + nested:
            raise _WholeTextError
        if body[0].col_offset != statement.col_offset:  # it no longer stands where its block does
            raise _WholeTextError
        # empty lines in front of it would be read again for each statement
        return ast.increment_lineno(body[0], first - 1 - nested)

    def _begins_line(self, statement: ast.stmt) -> bool:
        start = self._before.starts[_first_line(statement) - 1]
        return not self._before.text[start : start + statement.col_offset].strip(" \t")


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)]) if decorators else statement.lineno


def _end(node: ast.AST) -> tuple[int | None, int | None]:
    if isinstance(node, ast.match_case):  # it has no place of its own
        node = node.body[-1]
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _copy(node: _Node) -> _Node:
    copied = type(node)(**{field: getattr(node, field) for field in node._fields if hasattr(node, field)})
    return ast.copy_location(copied, node)
