"""Code that runs on no target: below `if False:`, `if TYPE_CHECKING:`, `if torch.version.hip:`."""

from __future__ import annotations

import ast

from torchferry.rules.base import PythonContext
from torchferry.source.names import assigned_value

_DEPTH = 3
"""Names that a condition is kept under, one behind the other."""

_FALSE = frozenset({"torch.version.hip", "typing.TYPE_CHECKING"})
"""What is false, or None, with the torch of every target."""


def never_runs(context: PythonContext, node: ast.AST) -> bool:
    """Whether a place is reached only where something is true that is false on every target."""
    child = node
    parent = context.file.parents.get(child)
    while parent is not None:
        if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and child is not parent.test:
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            if _is(context, parent.test, child not in body, 0):
                return True
        elif isinstance(parent, ast.BoolOp):
            answer = isinstance(parent.op, ast.Or)
            earlier = parent.values[: parent.values.index(child)]  # type: ignore[arg-type]
            if any(_is(context, value, answer, 0) for value in earlier):
                return True
        child, parent = parent, context.file.parents.get(parent)
    return False


def _is(context: PythonContext, test: ast.expr, answer: bool, depth: int) -> bool:
    """Whether a test is certain to have an answer."""
    if isinstance(test, ast.Constant):
        return bool(test.value) == answer
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is(context, test.operand, not answer, depth)
    if isinstance(test, ast.BoolOp):
        needed = all if isinstance(test.op, ast.And) == answer else any
        return needed(_is(context, value, answer, depth) for value in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        other = test.comparators[0]
        is_none = isinstance(other, ast.Constant) and other.value is None
        is_asked = is_none and context.names.qualified(test.left) == "torch.version.hip"
        return is_asked and isinstance(test.ops[0], ast.Is) == answer
    if isinstance(test, (ast.Name, ast.Attribute)) and context.names.qualified(test) in _FALSE:
        return not answer
    if isinstance(test, ast.Name) and depth < _DEPTH:
        bindings = context.names.bindings(test)
        value = assigned_value(context.file, bindings[0]) if len(bindings) == 1 else None
        return value is not None and _is(context, value, answer, depth + 1)
    return False
