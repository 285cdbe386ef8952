"""A tensor of a dtype that the target's collective library refuses.

`dist.all_reduce(t)` of a float64 tensor works with NCCL. A vendor's process group may have no sum for that dtype and
raise in the middle of the first epoch: meters that add up losses over all ranks are written so. Sum float32 or int64
values, or collect the values on the CPU with a second process group over gloo.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.collectives import Refusal, refusals
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, keyword_of
from torchferry.source.names import assigned_value

_OPERATIONS = {
    "torch.distributed.all_reduce": ("allreduce", "tensor"),
    "torch.distributed.reduce": ("reduce", "tensor"),
    "torch.distributed.reduce_scatter_tensor": ("_reduce_scatter_base", "output"),
    "torch.distributed.broadcast": ("broadcast", "tensor"),
    "torch.distributed.all_gather_into_tensor": ("_allgather_base", "output_tensor"),
    "torch.distributed.send": ("send", "tensor"),
}
"""Functions whose first argument is the tensor: the operation of the process group, and the argument's name."""

_SHORT_NAMES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
"""Second names of dtypes, which are also the methods that change to them, but for the complex ones."""

_FACTORIES = frozenset({"tensor", "as_tensor", "zeros", "ones", "empty", "full", "rand", "randn", "arange", "linspace"})
"""Functions of torch that make a tensor on the CPU unless they are given a device."""


class CollectiveDtype(Rule):
    """Finds collectives on a tensor that is evidently of a dtype which the process group refuses."""

    CODE = "DST108"
    CHINESE = """目标的集合通信库不接受该 dtype 的张量。

对 float64 张量做 `dist.all_reduce(t)`，用 NCCL 没有问题；厂商的进程组可能不支持该 dtype 的归约，
并在首个 epoch 中途报错：在各 rank 之间汇总损失的统计代码常这样写。
请汇总 float32 或 int64 的值，或另建一个 gloo 进程组，在 CPU 上汇总。
"""
    WORDS = tuple(name.rpartition(".")[2] for name in _OPERATIONS)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target of whose process group nobody knows what it refuses."""
        return () if isinstance(refusals(target.backend), Unknown) else self.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call of which both the operation and the dtype are evident."""
        found = refusals(context.target.backend)
        refused = {} if isinstance(found, Unknown) else {(each.operation, each.dtype): each for each in found}
        for reference in context.names.references("torch"):
            call = context.file.parents.get(reference.node)
            if reference.name not in _OPERATIONS or not isinstance(call, ast.Call) or call.func is not reference.node:
                continue
            operation, parameter = _OPERATIONS[reference.name]
            argument = call.args[0] if call.args else getattr(keyword_of(call, parameter), "value", None)
            if argument is None or keyword_of(call, "group") is not None:
                continue  # a group of the program's own may be over another library
            refusal = refused.get((operation, _dtype(context, argument) or ""))
            if refusal is not None and not _on_host(context, argument):
                yield self._report(context, call, refusal)

    def _report(self, context: PythonContext, call: ast.Call, refusal: Refusal) -> Finding:
        message = say(
            "`{collective}` on {target} refuses {dtype} here (“{text}”); sum float32 or int64 values, or use a group "
            "over gloo on the CPU",
            collective=context.target.backend.COLLECTIVE,
            target=context.target.title,
            dtype=refusal.dtype,
            text=refusal.text,
        )
        return self.finding(context, context.file.span(call), message, Grade.MANUAL)


def _values(context: PythonContext, expression: ast.expr) -> list[ast.expr]:
    """Return every expression that `expression` may stand for; none where one of them is not known."""
    if not isinstance(expression, ast.Name):
        return [expression]
    found = [assigned_value(context.file, binding) for binding in context.names.reaching_bindings(expression)]
    return [value for value in found if value is not None] if None not in found else []


def _dtype(context: PythonContext, expression: ast.expr, above: frozenset[ast.expr] = frozenset()) -> str | None:
    """Return the dtype that a tensor evidently has, or an empty text; None for one that is made of itself in a loop.

    Args:
        context: The file.
        expression: The tensor.
        above: The expressions that ask for it: `t = t.clone()` in a loop asks for itself.
    """
    if expression in above:
        return None
    above |= {expression}
    found = {_of_call(context, value, above) for value in _values(context, expression)} - {None}
    return found.pop() if len(found) == 1 else ""


def _of_call(context: PythonContext, value: ast.expr, above: frozenset[ast.expr]) -> str | None:
    if not isinstance(value, ast.Call):
        return ""
    given = keyword_of(value, "dtype")
    if given is not None:
        return _named(context, given.value)
    if not isinstance(value.func, ast.Attribute):
        return ""
    method = value.func.attr
    if method in _SHORT_NAMES and not value.args and not value.keywords:
        return _SHORT_NAMES[method]
    if method in ("to", "type"):
        dtypes = [name for name in (_named(context, argument) for argument in value.args) if name]
        if dtypes:
            return dtypes[0]
    if method in ("to", "cuda", "contiguous", "clone", "detach") and not _is_of_torch(context, value.func):
        return _dtype(context, value.func.value, above)  # they keep what it was
    return ""


def _named(context: PythonContext, node: ast.expr) -> str:
    name = context.names.qualified(node) or ""
    if not name.startswith("torch."):
        return ""
    short = name.removeprefix("torch.")
    return _SHORT_NAMES.get(short, short)


def _is_of_torch(context: PythonContext, function: ast.expr) -> bool:
    return (context.names.qualified(function) or "").startswith("torch.")


def _on_host(context: PythonContext, expression: ast.expr, above: frozenset[ast.expr] = frozenset()) -> bool:
    """Whether a tensor was evidently made on the CPU, where the library that takes it is not the card's."""
    if expression in above:
        return True  # made of itself in a loop: its other values decide
    values = _values(context, expression)
    return bool(values) and all(_made_on_host(context, value, above | {expression}) for value in values)


def _made_on_host(context: PythonContext, value: ast.expr, above: frozenset[ast.expr]) -> bool:
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Attribute) and not _is_of_torch(context, value.func):
        method = value.func.attr
        dtype_only = method != "to" or all(_named(context, argument) for argument in value.args)
        return method == "cpu" or (method != "cuda" and dtype_only and _on_host(context, value.func.value, above))
    device = keyword_of(value, "device")
    made_by_torch = (context.names.qualified(value.func) or "").removeprefix("torch.") in _FACTORIES
    if device is None:
        return made_by_torch
    return isinstance(device.value, ast.Constant) and device.value.value == "cpu"
