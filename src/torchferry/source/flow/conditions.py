"""A value in a comparison or beside an alternative: what it is held against."""

from __future__ import annotations

import ast

from torchferry.core.messages import say
from torchferry.source.flow.syntax import last_name
from torchferry.source.flow.trace import Path, Trace, TraceResult, best, no, undecided, yes
from torchferry.source.flow.tracer import Tracer
from torchferry.source.nodes import nodes_in

_CHOICES = ("mode", "impl", "implementation", "method", "kernel", "algorithm", "strategy", "engine", "version")
"""Words of identifiers that hold a way of doing something; `cpu` beside `cuda` does not make them a device."""


def in_comparison(flow: Tracer, node: ast.AST, comparison: ast.AST, path: Path) -> Trace:
    """Judge one side of a comparison by the others."""
    assert isinstance(comparison, ast.Compare)
    sides = [comparison.left, *comparison.comparators]
    return best([compared_with(flow, side) for side in sides if side is not node])


def compared_with(flow: Tracer, other: ast.expr) -> Trace:
    """Judge a string that is held against an expression: it is of the kind when the expression is."""
    text = ast.unparse(other)
    if flow.values.holds(other):
        return yes(say("compared with `{expression}`", expression=text))
    stranger = flow.values.stranger(other)
    if stranger:
        return no(say("one of several words, such as `{word}`", word=stranger), certain=True)
    if not any(word in last_name(other).lower() for word in _CHOICES) and _met_peer(flow, other):
        return yes(say("compared with `{expression}`", expression=text))
    if flow.is_used_elsewhere(other):
        return yes(say("compared with `{expression}`", expression=text))
    return undecided(say("compared with `{expression}`", expression=text))


def _met_peer(flow: Tracer, other: ast.expr) -> bool:
    """Whether the file compares the same variable with another value of the kind, such as `cpu`."""
    return isinstance(other, (ast.Name, ast.Attribute)) and ast.dump(other) in flow.compared_with_peers


def in_conditional(flow: Tracer, node: ast.AST, conditional: ast.AST, path: Path) -> Trace:
    """Judge one outcome of `a if c else b` by the other, else by what is done with the whole."""
    assert isinstance(conditional, ast.IfExp)
    if node is conditional.test:
        # translators: why a text is a device: it decides a condition
        return no(say("a condition"))
    other = conditional.orelse if node is conditional.body else conditional.body
    if flow.values.has_peer(other):
        return yes(say("the other choice is `{other}`", other=ast.unparse(other)))
    return flow.follow(conditional, path)


def in_alternatives(flow: Tracer, node: ast.AST, operation: ast.AST, path: Path) -> Trace:
    """Judge one operand of `a or b` by the others, else by what is done with the whole."""
    assert isinstance(operation, ast.BoolOp)
    for value in operation.values:
        if value is not node and flow.values.holds(value):
            return yes(say("the other choice is `{other}`", other=ast.unparse(value)))
    return flow.follow(operation, path)


def in_operation(flow: Tracer, node: ast.AST, operation: ast.AST, path: Path) -> Trace:
    """Judge a part of `"cuda:" + i` or `"cuda:%d" % i` by what is done with the whole."""
    assert isinstance(operation, ast.BinOp)
    if isinstance(operation.op, (ast.Add, ast.Mod)):
        return flow.follow(operation, path)
    if isinstance(operation.op, ast.Div):
        return no(say("a path or the name of a module"))
    return undecided()


def in_pattern(flow: Tracer, node: ast.AST, pattern: ast.AST, path: Path) -> Trace:
    """Judge a `case` pattern by the subject of the `match`."""
    parent: ast.AST | None = pattern
    while parent is not None and not isinstance(parent, ast.Match):
        parent = flow.file.parents.get(parent)
    if parent is None:
        return undecided()
    assert isinstance(parent, ast.Match)
    trace = compared_with(flow, parent.subject)
    choice = any(word in last_name(parent.subject).lower() for word in _CHOICES)
    if trace.result is TraceResult.UNKNOWN and not choice and _has_peer_case(flow, parent):
        return yes(say("next to other devices"))
    return trace


def _has_peer_case(flow: Tracer, match: ast.Match) -> bool:
    """Whether another case of a `match` is a value of the kind, such as `cpu`."""
    return any(
        isinstance(pattern, ast.MatchValue) and flow.values.has_peer(pattern.value)
        for case in match.cases
        for pattern in nodes_in(case.pattern)
    )
