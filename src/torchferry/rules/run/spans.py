"""The statement that a line belongs to: a call over several lines runs at one of them, its findings are at others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """Lines from `first` to `last`, and the statement that they are; of one with a body, its head alone."""

    first: int
    last: int
    statement: ast.stmt | None


def spans(tree: ast.Module) -> dict[int, Span]:
    """Return the innermost statement of each line."""
    found: dict[int, Span] = {}
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
        if isinstance(node, ast.stmt):
            span = Span(_first(node), _last(node), node)
            for line in range(span.first, span.last + 1):
                found[line] = span
        stack += reversed(children)  # statements before those that they hold, which then have the last word
    return found


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without those of the statements in it."""
    stack: list[ast.AST] = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(node.lineno for node in decorators)])


def _last(statement: ast.stmt) -> int:
    body = getattr(statement, "body", None)
    if isinstance(statement, ast.Match):
        return statement.subject.end_lineno or statement.lineno
    if not isinstance(body, list):
        return statement.end_lineno or statement.lineno
    return max(statement.lineno, _first(body[0]) - 1)
