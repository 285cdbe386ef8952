"""Nested tensors of strided layout on a card: every operator needs a kernel of its own for them, and has no fallback.

Those of jagged layout are made of dense ones, and run with what serves these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.unknown import Unknown
from torchferry.rules.base import PythonContext, keyword_of
from torchferry.rules.conditions import stored_uses
from torchferry.rules.distributed.tensors import CARD, place_of, place_of_device
from torchferry.source.flow.syntax import last_name

MAKING = frozenset({"torch.nested.nested_tensor", "torch.nested.as_nested_tensor"})

_OF_ALL = frozenset(
    {"size", "dim", "ndim", "dtype", "device", "layout", "is_nested", "requires_grad", "grad", "detach"}
)
"""What is asked of a tensor without an operator for the card, or with one that serves every kind."""

_SHOWING = frozenset({"print", "repr", "str", "len", "type", "isinstance", "id"})

_KEEPING = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Expr, ast.Return, ast.FormattedValue)
"""Where a tensor is kept under a name that is followed, shown, or left alone."""


def failing_nested(
    context: PythonContext, called: Iterable[tuple[str, ast.Call]], registered: frozenset[str] | Unknown
) -> Iterator[ast.Call]:
    """Yield the calls that make a nested tensor for the card with which something is done that has no kernel.

    Args:
        context: The file.
        called: The calls of functions of torch in it, with their names.
        registered: The operators that the plugin registers for such tensors; where nobody knows them, all may fail.
    """
    served = _OF_ALL if isinstance(registered, Unknown) else _OF_ALL | {each.partition(".")[0] for each in registered}
    for name, call in called:
        if name not in MAKING or not _is_strided(context, call):
            continue
        uses = [call, *stored_uses(context, call)]
        is_moved = any(_moves(context, use) for use in uses)
        if not is_moved and place_of(context, call) != CARD:
            continue
        if is_moved or isinstance(registered, Unknown) or not all(_is_served(context, use, served) for use in uses):
            yield call


def is_jagged(context: PythonContext, call: ast.Call) -> bool:
    """Whether a call makes a nested tensor of jagged layout."""
    layout = keyword_of(call, "layout")
    return layout is not None and context.names.qualified(layout.value) == "torch.jagged"


def _is_strided(context: PythonContext, call: ast.Call) -> bool:
    layout = keyword_of(call, "layout")
    return layout is None or context.names.qualified(layout.value) == "torch.strided"


def _moves(context: PythonContext, tensor: ast.expr) -> bool:
    """Whether a tensor is copied to the card: `tensor.cuda()`, `tensor.to("cuda")`."""
    method = context.file.parents.get(tensor)
    call = context.file.parents.get(method) if isinstance(method, ast.Attribute) else None
    if not isinstance(method, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not method:
        return False
    if method.attr in (cuda.DEVICE_TYPE, context.target.backend.DEVICE_TYPE):
        return True
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "device")]
    return method.attr == "to" and any(place_of_device(context, device) == CARD for device in given)


def _is_served(context: PythonContext, tensor: ast.expr, served: frozenset[str]) -> bool:
    """Whether what is done with a tensor at one place is an operator that is served, or none at all."""
    parent = context.file.parents.get(tensor)
    if isinstance(parent, ast.keyword):
        parent = context.file.parents.get(parent)
    if isinstance(parent, ast.Attribute):
        return parent.attr in served
    if isinstance(parent, ast.Call):
        return last_name(parent.func) in served | _SHOWING
    return isinstance(parent, _KEEPING)
