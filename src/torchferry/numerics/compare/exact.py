"""Results that must be right bit for bit: integers, booleans, and what is only moved."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import say, say_plural
from torchferry.numerics.compare import tables
from torchferry.numerics.compare.call import Call
from torchferry.numerics.compare.layout import judge_layout
from torchferry.numerics.compare.measuring import first_off
from torchferry.numerics.compare.status import Measures, Status, Verdict
from torchferry.numerics.kinds import Kind

_SHOWN = 20


def judge_exact(call: Call, number: int, right: Tensor) -> Verdict | None:
    """Judge a result by the CPU's in the same dtype, or in a wider one for integers.

    Returns:
        The verdict; None where a result with fractions differs, and it depends on by how much.
    """
    result = call.results[number]
    dtype = str(result.dtype).removeprefix("torch.")
    right = right.detach()
    if tuple(right.shape) != result.shape:
        reason = say("shape {ours}, and on the CPU {its}", ours=list(result.shape), its=list(right.shape))
        return Verdict(Status.FAIL, reason, shape=result.shape, dtype=dtype)
    ours = result.fetched.tensor
    if ours.layout is not torch.strided:
        ours = ours.to_dense()
    if right.layout is not torch.strided:
        right = right.to_dense()
    is_float = result.dtype.is_floating_point or result.dtype.is_complex
    if right.dtype != result.dtype and is_float:
        if call.operator.kind is Kind.MOVE:
            reason = say("dtype {ours}, and on the CPU {its}", ours=result.dtype, its=right.dtype)
            return Verdict(Status.FAIL, reason, shape=result.shape, dtype=dtype)
        return None
    right = right.to(result.dtype)
    if equal(ours, right):
        measures = Measures(elements=right.numel(), of_bound=0.0)
        verdict = Verdict(Status.PASS, None, measures, result.shape, dtype)
        wrong = judge_layout(call, number, right, lambda: right) if call.full else None
        return verdict if wrong is None else Verdict(wrong[0], wrong[1], measures, result.shape, dtype)
    if is_float and not _is_bitwise(call):
        return None
    if not is_float and _same_choice(call, number, ours, right):
        measures = Measures(elements=right.numel(), of_bound=0.0)
        return Verdict(Status.PASS, say("equal values chosen in another order"), measures, result.shape, dtype)
    wrong_at = _different(ours, right)
    count = int(wrong_at.sum())
    return Verdict(
        Status.FAIL,
        say_plural(
            "{off} of {count} element differs, and it must be equal",
            "{off} of {count} elements differ, and they must be equal",
            off=count,
            count=right.numel(),
        ),
        _distances(ours, right, count),
        result.shape,
        dtype,
        first_off(ours, right, wrong_at, _SHOWN),
    )


def _is_bitwise(call: Call) -> bool:
    """Whether no rounding is allowed: the call moves values, and changes no dtype."""
    if call.operator.kind is not Kind.MOVE:
        return False
    given = set(call.snapshot.dtypes())
    floats = {dtype for dtype in given if dtype.is_floating_point or dtype.is_complex}
    return {call.results[0].dtype} == floats


def equal(ours: Tensor, right: Tensor) -> bool:
    """Whether two tensors have the same shape and values; NaN equals NaN."""
    if ours.layout is not torch.strided or right.layout is not torch.strided:
        ours, right = ours.to_dense(), right.to_dense()
    if ours.shape != right.shape:
        return False
    if ours.is_floating_point() and ours.element_size() == 1:
        ours, right = ours.to(torch.float32), right.to(torch.float32)
    if torch.equal(ours, right):
        return True
    if not (ours.is_floating_point() or ours.is_complex()):
        return False
    return not bool(_different(ours, right).any())


def _different(ours: Tensor, right: Tensor) -> Tensor:
    """Return where values differ; NaN equals NaN."""
    if ours.is_floating_point() and ours.element_size() == 1:
        ours, right = ours.to(torch.float32), right.to(torch.float32)
    wrong = ours != right
    if ours.is_floating_point() or ours.is_complex():
        wrong &= ~(ours.isnan() & right.isnan())
    return wrong


def _distances(ours: Tensor, right: Tensor, off: int) -> Measures:
    if ours.dtype == torch.bool or ours.is_complex():
        return Measures(elements=right.numel(), off=off, max_abs=1.0, max_rel=1.0)
    error = (ours.double() - right.double()).abs()
    error = torch.nan_to_num(error, nan=0.0, posinf=0.0)
    return Measures(
        elements=right.numel(),
        off=off,
        max_abs=float(error.max()),
        max_rel=float((error / (right.double().abs() + 1e-7)).nan_to_num(nan=0.0).max()),
    )


def _same_choice(call: Call, number: int, ours: Tensor, right: Tensor) -> bool:
    """Whether other indices of equal values were chosen."""
    operator = call.operator
    if tables.chosen(operator) != number:
        return False
    args, kwargs = call.snapshot.build(lambda dtype: dtype, fresh=False)
    given: Any = args[0]
    if given.numel() == 0 or int(ours.min()) < 0:
        return False
    if "pool" in operator.base:
        spatial = ours.dim() - (given.dim() - 2 if given.dim() > 3 else given.dim() - 1)
        flat = given.flatten(spatial)
        ours, right = ours.flatten(spatial), right.flatten(spatial)
        dim = -1
    else:
        place = _dimension(call, args, kwargs)
        if place is None:
            flat, dim = given.reshape(-1), 0
            ours, right = ours.reshape(-1), right.reshape(-1)
        else:
            flat, dim = given, place
            if ours.dim() < given.dim():
                ours, right = ours.unsqueeze(dim), right.unsqueeze(dim)
    if int(ours.max()) >= flat.shape[dim]:
        return False
    return equal(flat.gather(dim, ours), flat.gather(dim, right))


def _dimension(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    for index, item in enumerate(call.operator.overload._schema.arguments):
        if item.name == "dim":
            value = args[index] if index < len(args) else kwargs.get("dim", item.default_value)
            return value if isinstance(value, int) else None
    return None
