"""Whether code copes with what it imports or calls being absent."""

from __future__ import annotations

import ast

from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import last_name

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "RuntimeError"})


def is_guarded(context: PythonContext, node: ast.AST) -> bool:
    """Whether a `try` that catches import errors, or a test whether something is available, is around `node`."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while parent is not None:
        if isinstance(parent, ast.Try) and child in parent.body and any(map(_catches, parent.handlers)):
            return True
        if isinstance(parent, ast.If) and child in parent.body and _asks_availability(parent.test):
            return True
        child, parent = parent, context.file.parents.get(parent)
    return False


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(last_name(kind) in _CAUGHT for kind in types)


def _asks_availability(test: ast.expr) -> bool:
    """Whether a test asks if a module or feature is there: `is_xformers_available()`, `HAS_APEX`."""
    for node in ast.walk(test):
        name = last_name(node).lower() if isinstance(node, (ast.Name, ast.Attribute)) else ""
        if "available" in name or "installed" in name or name.startswith(("has_", "have_", "use_", "find_spec")):
            return True
    return False
