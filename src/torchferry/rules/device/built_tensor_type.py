"""The name of a tensor type that is put together: `f"torch.cuda.{name}Tensor"`, `"torch.cuda." + name`."""

from __future__ import annotations

import ast

from torchferry.core.lazy_regex import lazy_regex
from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import last_name
from torchferry.source.nodes import nodes_in

WORD = lazy_regex(r"(?<![\w.])(?:torch\.)?cuda\.[\w%{}]*\Z")
"""A literal part of such a name, which ends where another part begins, or with it."""

_OPEN = "\0"
"""What stands in a text for a part that is no literal."""

_TYPE = lazy_regex(r"torch\.cuda\.[\w\0]*Tensor\Z")
_ANY = lazy_regex(r"torch\.cuda\.\0\Z")
_FIELD = lazy_regex(r"%s|\{\w*\}")
_PARTS = (ast.BinOp, ast.JoinedStr, ast.FormattedValue, ast.IfExp)


def built_type(context: PythonContext, node: ast.Constant) -> ast.expr | None:
    """Return the expression that makes the name of a type of which a literal is a part; None where it makes none."""
    whole: ast.expr = node
    while isinstance(parent := context.file.parents.get(whole), _PARTS):
        if isinstance(parent, ast.IfExp) and whole is parent.test:
            return None
        whole = parent
    if isinstance(parent, ast.Attribute) and parent.attr == "format":
        call = context.file.parents.get(parent)
        whole = call if isinstance(call, ast.Call) else whole
    if whole is node:
        return None
    text = _text(whole, node)
    if _TYPE.match(text) or (_ANY.match(text) and _is_type(context, whole)):
        return whole
    return None


def _is_type(context: PythonContext, whole: ast.expr) -> bool:
    """Whether an expression is what a tensor is converted to: `x.type(name)`."""
    call = context.file.parents.get(whole)
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "type"


def _text(node: ast.expr, chosen: ast.Constant) -> str:
    """Return what an expression writes where that comes to one literal, with `_OPEN` for what is not known."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value, chosen) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, chosen)
    if isinstance(node, ast.IfExp):
        return _text(next((each for each in (node.body, node.orelse) if chosen in nodes_in(each)), node.body), chosen)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, chosen) + _text(node.right, chosen)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _FIELD.sub(_OPEN, _text(node.left, chosen))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and last_name(node) == "format":
        return _FIELD.sub(_OPEN, _text(node.func.value, chosen))
    return _OPEN
