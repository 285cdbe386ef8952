"""A device that is cut off a text: `device.replace("cuda:", "")`, as programs do with what a user asks for.

What users, scripts and settings ask for stays what it was: the word of CUDA is still cut off, and the target's too.
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from torchferry.core.finding import Edit
from torchferry.rules.base import PythonContext

_REST = {"replace": 1, "removeprefix": 0}
"""Methods that cut off their first argument, and how many arguments follow; all of them are the empty string."""


def cutting_call(context: PythonContext, node: ast.expr) -> ast.Call | None:
    """Return the call that cuts a string off a text; None where a string is used in another way."""
    call = context.file.parents.get(node)
    if isinstance(call, ast.Call) and call.args[:1] == [node] and _cuts(call):
        return call
    return None


def _cuts(call: ast.AST | None) -> TypeGuard[ast.Call]:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.keywords:
        return False
    rest = call.args[1:]
    return len(rest) == _REST.get(call.func.attr, -1) and all(
        isinstance(argument, ast.Constant) and argument.value == "" for argument in rest
    )


def also_cut_off(context: PythonContext, call: ast.Call, text: str) -> list[Edit]:
    """Return the edits that cut off the value of an expression as well, behind a call that cuts off a string."""
    assert isinstance(call.func, ast.Attribute)
    _, end = context.file.span(call)
    rest = "".join(f", {context.file.text(argument)}" for argument in call.args[1:])
    return [Edit(end, end, f".{call.func.attr}({text}{rest})")]


def is_cut_off_too(context: PythonContext, call: ast.Call, text: str) -> bool:
    """Return whether the value of an expression is cut off the same text: right behind the call, or right before it."""
    assert isinstance(call.func, ast.Attribute)
    wanted = ast.dump(ast.parse(text, mode="eval").body)
    parent = context.file.parents.get(call)
    outer = context.file.parents.get(parent) if isinstance(parent, ast.Attribute) else None
    behind = outer if isinstance(outer, ast.Call) and outer.func is parent else None
    return any(_cuts(other) and ast.dump(other.args[0]) == wanted for other in (behind, call.func.value))
