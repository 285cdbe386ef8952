"""How far a right result may be from the reference: bounds of rounding errors, by dtype, sizes and values.

Sources: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 3 and 4 (error of sums and products,
componentwise; its probabilistic form grows with the root of the length); the constants were measured on healthy runs of
other algorithms for the same operator (products in parts, sums in other orders) and leave a factor above them.

How errors grow in an operator, and what its arguments mean, is in tables.toml.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchferry.backends import registry
from torchferry.backends.fused import fused_operators
from torchferry.backends.kernel_limits import kernel_limits
from torchferry.core import toml
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import Operator, tensors
from torchferry.numerics.framework.torch_versions import by_dtype

UNIT = by_dtype(
    {
        "float16": 2.0**-11,
        "bfloat16": 2.0**-8,
        "float32": 2.0**-24,
        "float64": 2.0**-53,
        "complex32": 2.0**-11,
        "complex64": 2.0**-24,
        "complex128": 2.0**-53,
        "float8_e4m3fn": 2.0**-4,
        "float8_e5m2": 2.0**-3,
        "float8_e4m3fnuz": 2.0**-4,
        "float8_e5m2fnuz": 2.0**-3,
    }
)
"""Unit roundoff: half of a unit in the last place, relative."""

TINY = by_dtype(
    {
        "float16": 2.0**-14,
        "bfloat16": 2.0**-126,
        "float32": 2.0**-126,
        "float64": 2.0**-1022,
        "complex32": 2.0**-14,
        "complex64": 2.0**-126,
        "complex128": 2.0**-1022,
        "float8_e4m3fn": 2.0**-6,
        "float8_e5m2": 2.0**-14,
        "float8_e4m3fnuz": 2.0**-7,
        "float8_e5m2fnuz": 2.0**-15,
    }
)
"""Smallest normal number; a device may flush what is smaller to zero."""

EIGHT_BITS = frozenset(
    dtype
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if (dtype := getattr(torch, name, None)) is not None
)
"""Dtypes of eight bits, of whose values torch cannot say whether they are finite."""

_SINGLE = 2.0**-24
"""Unit roundoff of the sums that devices make of halves: they are kept in float32."""

_SHORTEST = 16
"""Shorter sums are bounded as if they were so long: devices pad and split them."""


class ErrorBound:
    """What an error may be: `relative` times |reference|, plus `absolute`, a number or one for each element."""

    def __init__(self, relative: float, absolute: float | Tensor) -> None:
        self.relative = relative
        self.absolute = absolute


def unit(dtype: torch.dtype) -> float:
    """Return the unit roundoff of a dtype; a dtype that is not known is taken for float32."""
    return UNIT.get(dtype, _SINGLE)


def summing(dtype: torch.dtype) -> float:
    """Return the unit roundoff of sums in an operator with results of a dtype."""
    return min(unit(dtype), _SINGLE)


def bound(
    operator: Operator, args: tuple[Any, ...], index: int, reference: Tensor, dtype: torch.dtype, reduced: float = 0.0
) -> ErrorBound:
    """Return what the error of a result may be.

    Args:
        operator: The operator.
        args: Positional arguments of the reference.
        index: Number of the result.
        reference: The result of the reference.
        dtype: Dtype of the device's result.
        reduced: Unit roundoff to which a device rounds the inputs of products first (TF32 and its like); 0 for none.
    """
    kind = growth(operator)
    own, small = unit(dtype), TINY.get(dtype, 2.0**-126)
    if kind is Growth.NONE:
        return ErrorBound(1.001 * own, small)
    if kind is Growth.POINT:
        return ErrorBound(2 * ulps(operator) * own, small)
    if kind is Growth.PRODUCT:
        length = max(_SHORTEST, _product_length(operator, args, index, reference))
        if operator.base in ("mm", "addmm") and reference.dim() == 2 and reference.numel():
            left, right = map(_dense, args[-2:] if operator.base == "mm" else args[1:3])
            sizes = torch.outer(torch.linalg.vector_norm(left, dim=1), torch.linalg.vector_norm(right, dim=0))
            return ErrorBound(2 * own, sizes.mul_(4 * math.sqrt(length) * summing(dtype)).add_(small))
        return ErrorBound(8 * own, 8 * math.sqrt(length) * summing(dtype) * largest(reference) + small)
    length = max(_SHORTEST, _sum_length(args, reference))
    return ErrorBound(8 * own, 8 * math.sqrt(length) * summing(dtype) * largest(reference) + small)


def _dense(tensor: Tensor) -> Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def magnitude(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor] | None:
    """Return the results of the operator on the absolute values of its arguments, where their errors grow with those.

    It bounds the error of sums that cancel: |error| <= units * (|a| + |b|), however small a + b is.

    Args:
        operator: The operator.
        args: Positional arguments of the reference, not written to.
        kwargs: Its arguments by name.
    """
    base = plain(operator.base)
    if base not in _LINEAR:
        return None
    base = {"sub": "add", "_foreach_sub": "_foreach_add"}.get(base, base)
    packet = getattr(torch.ops.aten, base, None)
    overload = getattr(packet, operator.overload._overloadname, None)
    if overload is None:
        return None
    out = overload(*(_absolute(value) for value in args), **{key: _absolute(value) for key, value in kwargs.items()})
    return list(tensors(out))


_LINEAR = frozenset(
    {
        "add", "sub", "addcmul", "addcdiv", "sum", "mean", "cumsum", "rsub", "_foreach_add", "_foreach_sub",
        "_foreach_addcmul", "_foreach_addcdiv",
    }
)  # fmt: skip
"""Operators whose error is bounded by their value on absolute arguments."""


def _absolute(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.abs() if value.dtype != torch.bool else value
    if isinstance(value, float):
        return abs(value)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (Tensor, float)):
        return [_absolute(part) for part in value]
    return value


def largest(reference: Tensor) -> float:
    """Return the greatest finite absolute value; 0 of no elements."""
    if reference.numel() == 0:
        return 0.0
    if reference.is_complex():
        reference = torch.view_as_real(reference)
    low, high = torch.aminmax(reference)
    value = max(abs(float(low)), abs(float(high)))
    if math.isfinite(value):
        return value
    return float(torch.nan_to_num(reference.abs(), nan=0.0, posinf=0.0, neginf=0.0).max())


def _sum_length(args: tuple[Any, ...], reference: Tensor) -> float:
    most = max((tensor.numel() for value in args for tensor in tensors(value)), default=1)
    length = most / max(1, reference.numel())
    if length <= 1 and reference.dim() > 0:  # as large as the input: a softmax or a norm, over some of its dimensions
        length = max(reference.shape)
    return length


def _product_length(operator: Operator, args: tuple[Any, ...], index: int, reference: Tensor) -> float:
    base = operator.base
    given = [tensor for value in args for tensor in tensors(value)]
    if base == "convolution_backward" and len(given) >= 3:
        gradient, _, weight = given[:3]
        if index == 0:
            return weight.numel() / max(1, weight.shape[1])
        return gradient.numel() / max(1, gradient.shape[1])
    if "conv" in base and len(given) >= 2:
        return given[1].numel() / max(1, given[1].shape[0])
    if base in ("bmm", "baddbmm", "mm", "addmm", "mv", "addmv", "dot"):
        return given[-1].shape[-2] if given[-1].dim() > 1 else given[-1].numel()
    return _sum_length(args, reference) * 16


class Growth(enum.Enum):
    """How rounding errors grow in an operator; what only moves values rounds at most once, to the nearest."""

    NONE = "exact"
    POINT = "pointwise"
    SUM = "reduction"
    PRODUCT = "product"

    __hash__ = object.__hash__  # a member is itself alone; that of Enum is a function of Python's


@lru_cache(maxsize=1)
def _tables() -> dict[str, Any]:
    return toml.load_own(Path(__file__).with_name("tables.toml"))


@lru_cache(maxsize=1)
def _sets() -> dict[str, frozenset[str]]:
    return {name: frozenset(names) for name, names in _tables().items() if isinstance(names, list)}


def plain(base: str) -> str:
    """Return the name of an operator without the mark of one that works in place: `add` for `add_`."""
    return base[:-1] if base.endswith("_") and not base.endswith("__") else base


def _is(operator: Operator, table: str) -> bool:
    base, overload = plain(operator.base), operator.overload._overloadname
    names = _sets()[table]
    return base in names or f"{base}.{overload}" in names


@cache
def growth(operator: Operator) -> Growth:
    """Return how errors grow in an operator; one of which nothing is known reduces, if it is not pointwise."""
    if operator.kind is OpKind.MOVE:
        return Growth.NONE
    if operator.kind is OpKind.CONSTANT:
        return Growth.POINT
    if _is(operator, "product"):
        return Growth.PRODUCT
    if _is(operator, "reduction"):
        return Growth.SUM
    if torch.Tag.pointwise in operator.overload.tags or is_elementwise_list(operator):
        return Growth.POINT
    return Growth.SUM


@cache
def is_elementwise_list(operator: Operator) -> bool:
    """Whether it works on lists of tensors, element by element, such as an optimizer's."""
    base = plain(operator.base)
    if base.startswith("_foreach_"):
        return base not in ("_foreach_norm", "_foreach_max", "_foreach_powsum")
    return base in ("_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad")


@cache
def is_stepped(operator: Operator) -> bool:
    """Whether a slightly different input can change the result by a whole step."""
    return _is(operator, "stepped")


@cache
def is_opaque(operator: Operator) -> bool:
    """Whether it takes or gives a workspace that only the same kernel of the same device can read."""
    return _is(operator, "opaque")


@cache
def is_unordered(operator: Operator) -> bool:
    """Whether devices add in an order that differs from run to run."""
    return _is(operator, "unordered")


@cache
def varying_kernel(operator: Operator, device: str) -> str:
    """Return the vendor's kernel that does not compute an operator the same each time; empty where none is published.

    Args:
        operator: The operator.
        device: Type of the device that it ran on.
    """
    if operator.space != "aten":
        return ""
    name = f"{operator.base}.{operator.overload._overloadname}".removesuffix(".default")
    for target in registry.names():
        backend = registry.load(target)
        limits = kernel_limits(backend) if device == backend.DEVICE_TYPE else None
        if limits is not None and (kernel := limits.varying_on_any(name)):
            return kernel
    return ""


@cache
def is_sum(operator: Operator) -> bool:
    """Whether each element of a result is a sum of products of the arguments."""
    return _is(operator, "sum")


@cache
def ulps(operator: Operator) -> float:
    """Return what a device may be off by in one pointwise function, in ULP."""
    value: float = _tables()["ulp"].get(plain(operator.base), 4)
    return value


@cache
def chosen(operator: Operator) -> int | None:
    """Return the number of the result that has indices of chosen elements, or None."""
    table: dict[str, int] = _tables()["chosen"]
    base, overload = plain(operator.base), operator.overload._overloadname
    named = f"{base}.{overload}"
    return table.get(named, table.get(base))


def widened(
    operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that fit a run in higher precision: what says that half becomes float says it no more."""
    if operator.base in ("_softmax", "_log_softmax") and len(args) > 2:
        return (*args[:2], False), kwargs
    return args, kwargs


@cache
def statistics(operator: Operator) -> dict[int, str]:
    """Return what auxiliary results mean that can be compared where the device gives them too."""
    table: dict[str, dict[str, int]] = _tables()["statistics"]
    return {number: name for name, number in table.get(operator.base, {}).items()}


@cache
def auxiliary(operator: Operator) -> frozenset[int]:
    """Return the numbers of results that only the backward of the same device understands."""
    fused = fused_operators().get(f"{operator.space}::{operator.base}")
    numbers: Iterable[int] = _tables()["auxiliary"].get(operator.base, fused.auxiliary if fused else ())
    return frozenset(numbers)
