"""One process that drives several cards: `nn.DataParallel`, or `replicate`, `scatter` and `gather` of its own.

It copies the model to every card and gathers the results, through functions that not every plugin has, and it is the
slowest way even on CUDA. `DistributedDataParallel` with one process a card works everywhere. The wrapper also gives
the checkpoint's keys their `module.` prefix, so it cannot simply be dropped.

Why: The call raises where the plugin lacks these functions, and it is slow elsewhere.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.tables import Row
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.conditions import stored_uses
from torchferry.rules.references import renamed_references
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Reference

NAMES = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel"})
"""The wrapper and its function."""

_PARTS = frozenset(
    f"torch.nn.parallel.{name}"
    for name in (
        "replicate", "replicate.replicate", "scatter", "scatter_kwargs", "gather",
        "scatter_gather.scatter", "scatter_gather.scatter_kwargs", "scatter_gather.gather",
        "_functions.Broadcast.apply", "_functions.ReduceAddCoalesced.apply", "_functions.Gather.apply",
        "_functions.Scatter.apply",
    )
)  # fmt: skip
"""What `data_parallel` is made of and programs call by themselves: the copies of `torch.nn.parallel.comm`."""

_COPIES = "torch.nn.parallel.comm"

_AROUND = (ast.Tuple, ast.List, ast.Set, ast.BinOp, ast.Subscript, ast.Starred)
_CONTAINERS = frozenset({"tuple", "list", "set", "frozenset"})

_DEPTH = 3
"""How many names are followed from one to the next."""


class DataParallel(Rule):
    """Finds `nn.DataParallel` and what it is made of."""

    CODE = "DST105"
    EFFECT = Effect.RAISES
    ANSWERS = (say("use `DistributedDataParallel`"),)
    WORDS = ("DataParallel", "data_parallel", "nn.parallel", "from torch.nn import parallel")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, by what the target's table says of it."""
        for reference in (*context.references.get("distributed", ()), *renamed_references(context, NAMES)):
            if reference.is_import or reference.name not in NAMES or _registers(context, reference.node):
                continue
            if not _names_a_type(context, reference.node):
                yield from self._report(context, reference, context.target.api(reference.name))
        called: set[ast.AST | None] = set()
        for reference in context.names.references("torch") if "parallel" in context.text else ():
            if reference.is_import or reference.name not in _PARTS:
                continue
            unit = context.file.enclosing_function(reference.node)
            if unit not in called:  # the copies of one function are one decision
                called.add(unit)
                yield from self._report(context, reference, context.target.api(_COPIES))

    def _report(self, context: PythonContext, reference: Reference, row: Row) -> Iterator[Finding]:
        """Yield what the target's table says of a use."""
        if row.status == "same":
            return
        span = context.file.span(reference.node)
        if row.status == "unknown":
            message = say(
                "whether `{found}` works on {target} is UNKNOWN; `DistributedDataParallel` does",
                found=reference.name,
                target=context.target.title,
            )
        else:
            message = say(
                "`{found}` on {target}: {note}",
                found=reference.name,
                target=context.target.title,
                note=row.remark or say("use `DistributedDataParallel` with one process for each card"),
            )
        effect = Effect.UNKNOWN if row.status == "unknown" else self.EFFECT
        yield self.finding(context, span, message, Grade.MANUAL, effect=effect)


def _registers(context: PythonContext, node: ast.AST) -> bool:
    """Whether a name is only put in a registry: `WRAPPERS.register_module(module=DataParallel)`."""
    parent = context.file.parents.get(node)
    call = context.file.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    return isinstance(call, ast.Call) and call.func is not node and last_name(call.func).startswith("register")


def _asks_type(node: ast.expr) -> bool:
    """Whether an expression is the type of an object: `type(model)`, `model.__class__`."""
    if isinstance(node, ast.Call):
        return last_name(node.func) == "type" and len(node.args) == 1
    return isinstance(node, ast.Attribute) and node.attr == "__class__"


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.Set, ast.List, ast.Tuple)) else [node]


def _names_a_type(context: PythonContext, node: ast.AST | None, depth: int = 0) -> bool:
    """Whether a class is only what values are compared with, or annotated as: that runs everywhere."""
    whole, above = node, context.file.parents.get(node) if node is not None else None
    is_tested = False
    while isinstance(above, _AROUND) or (isinstance(above, ast.Call) and last_name(above.func) in _CONTAINERS):
        if isinstance(above, ast.Subscript) and whole is above.slice:
            return True  # a parameter of a type, or a key
        if isinstance(above, ast.BinOp):
            if isinstance(above.op, ast.BitOr) and isinstance(whole, (ast.Name, ast.Attribute)):
                return True  # no class, but a union
            is_tested |= any(_asks_type(part) for side in (above.left, above.right) for part in _items(side))
        whole, above = above, context.file.parents.get(above)
    if is_tested or (isinstance(above, ast.MatchClass) and whole is above.cls):
        return True
    if isinstance(above, ast.Dict):
        return whole in above.keys
    if isinstance(above, (ast.For, ast.comprehension)) and whole is above.iter and isinstance(above.target, ast.Name):
        items = context.names.uses_of(above.target)
        return depth < _DEPTH and bool(items) and all(_names_a_type(context, use, depth + 1) for use in items)
    if isinstance(above, ast.keyword):
        return above.arg == "bound"
    if isinstance(above, ast.Call):
        asked = last_name(above.func)
        if asked in ("isinstance", "issubclass"):
            return whole in above.args[1:]
        return (asked == "cast" and whole in above.args[:1]) or (asked == "TypeVar" and whole in above.args)
    if isinstance(above, ast.Compare):
        return any(_asks_type(side) for side in (above.left, *above.comparators))
    if isinstance(above, (ast.arg, ast.AnnAssign)) and whole is above.annotation:
        return True
    if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return whole is above.returns
    if depth >= _DEPTH or not isinstance(above, ast.Assign) or not isinstance(whole, ast.expr):
        return False
    uses = stored_uses(context, whole)
    return bool(uses) and all(_names_a_type(context, use, depth + 1) for use in uses)
