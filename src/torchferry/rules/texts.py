"""Strings that are texts for people, wherever they stand."""

from __future__ import annotations

import ast

from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import last_name

_SPEAKING = frozenset(
    {"print", "info", "warning", "warn", "error", "debug", "add_argument", "log", "critical", "exception", "write"}
)
_DESCRIBING = frozenset({"help", "description", "msg", "message", "epilog"})


def is_text(context: PythonContext, node: ast.AST) -> bool:
    """Whether a string is printed, logged, raised, or documentation; parts of f-strings and of sums included."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.JoinedStr, ast.BinOp, ast.IfExp, ast.Tuple)):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, (ast.Expr, ast.Raise, ast.Assert)):
        return True
    if isinstance(parent, ast.Call):
        name = last_name(parent.func)
        return name in _SPEAKING or name.endswith(("Error", "Exception", "Warning"))
    return isinstance(parent, ast.keyword) and parent.arg in _DESCRIBING
