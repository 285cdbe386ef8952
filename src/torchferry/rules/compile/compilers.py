"""Where `"cuda"` names a back end of a compiler rather than a device: `target.backend == "cuda"` of Triton."""

from __future__ import annotations

import ast

from torchferry.rules.base import PythonContext
from torchferry.source.flow.containers import questions
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import assigned_value

_COMPILERS = {"triton": "Triton", "tvm": "TVM", "tilelang": "TileLang", "numba": "Numba", "iree": "IREE"}
_CURRENT = "get_current_target"
_TARGET = "GPUTarget"


def compiler_of(context: PythonContext, node: ast.AST) -> str | None:
    """Return the compiler that a string names a back end of; None for any other string."""
    if not isinstance(node, ast.Constant) or node.value != "cuda":
        return None
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Compare):
        sides = (parent.left, *parent.comparators)
        return "Triton" if any(_is_backend(context, side) for side in sides if side is not child) else None
    if isinstance(parent, ast.Dict) and child in parent.keys:
        own = (each.asked for each in questions(context.devices, parent) if each.flow.file is context.file)
        return "Triton" if any(_is_backend(context, asked) for asked in own) else None
    if isinstance(parent, (ast.MatchValue, ast.MatchOr)):
        while parent is not None and not isinstance(parent, ast.Match):
            parent = context.file.parents.get(parent)
        return "Triton" if isinstance(parent, ast.Match) and _is_backend(context, parent.subject) else None
    if isinstance(parent, ast.keyword):
        call = context.file.parents.get(parent)
        return _called(context, call, parent.arg) if isinstance(call, ast.Call) else None
    if isinstance(parent, ast.Call) and child in parent.args:
        return _called(context, parent, None if child is parent.args[0] else "")
    return None


def _called(context: PythonContext, call: ast.Call, keyword: str | None) -> str | None:
    """Return the compiler whose function takes a back end as its first argument, or by this keyword."""
    if last_name(call.func) == _TARGET:
        return "Triton" if keyword in (None, "backend") else None
    top = (context.names.qualified(call.func) or "").partition(".")[0]
    takes = keyword == "target" or (keyword is None and last_name(call.func) in ("Target", "target"))
    return _COMPILERS.get(top) if takes else None


def _is_backend(context: PythonContext, expression: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is the back end of a target of Triton."""
    if depth > 2:
        return False
    if isinstance(expression, ast.Name):
        return any(
            (value := assigned_value(context.file, binding)) is not None and _is_backend(context, value, depth + 1)
            for binding in context.names.bindings(expression)
        )
    return (
        isinstance(expression, ast.Attribute)
        and expression.attr == "backend"
        and _is_target(context, expression.value, depth)
    )


def _is_target(context: PythonContext, expression: ast.expr, depth: int) -> bool:
    if isinstance(expression, ast.Call):
        if last_name(expression.func) in (_CURRENT, _TARGET):
            return True
        return depth <= 2 and any(_is_target(context, value, depth + 1) for value in _returned(context, expression))
    named = last_name(expression)
    if named == "target" and ("triton" in context.text or _TARGET in context.text):
        return True
    if not isinstance(expression, ast.Name) or depth > 2:
        return False
    for binding in context.names.bindings(expression):
        if isinstance(binding, ast.arg):
            if binding.annotation is not None and last_name(binding.annotation) == _TARGET:
                return True
            continue
        value = assigned_value(context.file, binding)
        if value is not None and _is_target(context, value, depth + 1):
            return True
    return False


def _returned(context: PythonContext, call: ast.Call) -> list[ast.expr]:
    """Return what the statements of a function of the file return that a call means by its name."""
    bindings = context.names.bindings(call.func) if isinstance(call.func, ast.Name) else ()
    bodies = (binding.body for binding in bindings if isinstance(binding, ast.FunctionDef))
    statements = (statement for body in bodies for statement in body)
    return [each.value for each in statements if isinstance(each, ast.Return) and each.value is not None]
