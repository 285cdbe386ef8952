"""What must be right exactly: integers, booleans, moved values, the layout in memory, places of NaN and infinity."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.compare import tolerances
from torchferry.numerics.compare.snapshot import ComparedCall, StridedPlace, Untestable, replaced
from torchferry.numerics.compare.tolerances import unit
from torchferry.numerics.compare.verdict import ErrorMeasures, ResultVerdict, Status, first_off
from torchferry.numerics.framework.kinds import OpKind

# How a result lies in memory, beside how it lies on the CPU: operators promise it, and views rest on it.


def judge_layout(
    call: ComparedCall, number: int, right: Tensor, same: Callable[[], Tensor]
) -> tuple[Status, Message] | None:
    """Judge dtype and strides of a result whose values are right.

    The CPU may lay results out otherwise in another dtype, and other devices may have a reason to, which torch's
    shape-only implementation knows; some plugins give every result in the usual order. It fails what none of them does.

    Returns:
        Status and reason, or None where all is well.
    """
    result = call.results[number]
    if right.layout is not torch.strided or len(result.stride) != len(result.shape):
        return None
    planned = _planned(call)
    plan = planned[number] if planned is not None and number < len(planned) else None
    if plan is None or plan.dtype != result.dtype:
        dtype = _dtype(same)
        if dtype is not None and dtype != result.dtype:
            return Status.FAIL, say("dtype {ours}, but {its} on the CPU", ours=result.dtype, its=dtype)
    ours = _effective(result.shape, result.stride)
    if ours == _effective(tuple(right.shape), right.stride()):
        return None
    others = [right.stride()]
    with contextlib.suppress(Untestable, IndexError):
        others.append(same().stride())
    its = list(others[-1])
    if plan is not None:
        others.append(plan.stride())
    others.append(torch.empty(result.shape, device="meta").stride())
    if any(ours == _effective(result.shape, tuple(stride)) for stride in others):
        return None
    return Status.FAIL, say(
        "right values in the wrong layout: strides {ours}, but {its} on the CPU",
        ours=list(result.stride),
        its=its,
    )


def _dtype(same: Callable[[], Tensor]) -> torch.dtype | None:
    try:
        return same().dtype
    except (Untestable, IndexError):
        return None


def _effective(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of dimensions that have more than one element; the others' mean nothing."""
    if 0 in shape:
        return ()
    return tuple(step for size, step in zip(shape, stride, strict=True) if size > 1)


def _planned(call: ComparedCall) -> list[Tensor] | None:
    """Return the results that torch expects, without values; None where it has no such implementation."""

    if any(store.whole for store in call.snapshot.stores):
        return None  # sparse tensors have no strides

    def meta(place: StridedPlace) -> Tensor:
        dtype = call.snapshot.stores[place.store].fetched.dtype
        return torch.empty_strided(place.size, place.stride, dtype=dtype, device="meta")

    args = tuple(replaced(value, StridedPlace, meta) for value in call.snapshot.args)
    kwargs = {key: replaced(value, StridedPlace, meta) for key, value in call.snapshot.kwargs.items()}
    if "device" in kwargs:
        kwargs["device"] = torch.device("meta")
    try:
        out = call.operator.overload(*args, **kwargs)
    except Exception:
        return None
    planned = dict(call.operator.numbered(args, kwargs, out))
    slots = call.slots or tuple(planned)
    return [planned[slot] for slot in slots] if planned.keys() >= set(slots) else None


def judge_exact(call: ComparedCall, number: int, right: Tensor) -> ResultVerdict | None:
    """Judge a result by the CPU's in the same dtype, or in a wider one for integers.

    Returns:
        The verdict; None where a result with fractions differs, and it depends on by how much.
    """
    result = call.results[number]
    dtype = str(result.dtype).removeprefix("torch.")
    right = right.detach()
    if tuple(right.shape) != result.shape:
        reason = say("shape {ours}, but {its} on the CPU", ours=list(result.shape), its=list(right.shape))
        return ResultVerdict(Status.FAIL, reason, shape=result.shape, dtype=dtype)
    ours = result.fetched.tensor
    if ours.layout is not torch.strided:
        ours = ours.to_dense()
    if right.layout is not torch.strided:
        right = right.to_dense()
    is_float = result.dtype.is_floating_point or result.dtype.is_complex
    if right.dtype != result.dtype and is_float:
        if call.operator.kind is OpKind.MOVE:
            reason = say("dtype {ours}, but {its} on the CPU", ours=result.dtype, its=right.dtype)
            return ResultVerdict(Status.FAIL, reason, shape=result.shape, dtype=dtype)
        return None
    right = right.to(result.dtype)
    if equal(ours, right):
        measures = ErrorMeasures(elements=right.numel(), of_bound=0.0)
        verdict = ResultVerdict(Status.PASS, None, measures, result.shape, dtype)
        wrong = judge_layout(call, number, right, lambda: right) if call.full else None
        return verdict if wrong is None else ResultVerdict(wrong[0], wrong[1], measures, result.shape, dtype)
    if is_float and not _is_bitwise(call):
        return None
    if not is_float and _same_choice(call, number, ours, right):
        measures = ErrorMeasures(elements=right.numel(), of_bound=0.0)
        return ResultVerdict(
            Status.PASS, say("equal values chosen in a different order"), measures, result.shape, dtype
        )
    wrong_at = _different(ours, right)
    count = int(wrong_at.sum())
    return ResultVerdict(
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
        first_off(ours, right, wrong_at),
    )


def _is_bitwise(call: ComparedCall) -> bool:
    """Whether no rounding is allowed: the call moves values, and changes no dtype."""
    if call.operator.kind is not OpKind.MOVE:
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


def _distances(ours: Tensor, right: Tensor, off: int) -> ErrorMeasures:
    if ours.dtype == torch.bool or ours.is_complex():
        return ErrorMeasures(elements=right.numel(), off=off, max_abs=1.0, max_rel=1.0)
    error = (ours.double() - right.double()).abs()
    error = torch.nan_to_num(error, nan=0.0, posinf=0.0)
    return ErrorMeasures(
        elements=right.numel(),
        off=off,
        max_abs=float(error.max()),
        max_rel=float((error / (right.double().abs() + 1e-7)).nan_to_num(nan=0.0).max()),
    )


def _same_choice(call: ComparedCall, number: int, ours: Tensor, right: Tensor) -> bool:
    """Whether other indices of equal values were chosen."""
    operator = call.operator
    if tolerances.chosen(operator) != number:
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


def _dimension(call: ComparedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    for index, item in enumerate(call.operator.overload._schema.arguments):
        if item.name == "dim":
            value = args[index] if index < len(args) else kwargs.get("dim", item.default_value)
            return value if isinstance(value, int) else None
    return None


# NaN and infinity in a result, beside those that the reference has after rounding to the dtype of the result.


@dataclass
class NonfiniteCheck:
    """A result that can be measured, or the verdict where it cannot.

    Attributes:
        device: The result, with zeros where the reference is not finite.
        reference: The reference, likewise.
        finite: Where both are finite; None where everything is.
        verdict: The verdict, if the patterns differ.
        remark: What is to be said of NaN and infinity that are right.
    """

    device: Tensor
    reference: Tensor
    finite: Tensor | None = None
    verdict: ResultVerdict | None = None
    remark: Message | None = None


def judge_nonfinite(
    ours: Tensor,
    right: Tensor,
    dtype: torch.dtype,
    same: Callable[[], Tensor | None],
    given_finite: Callable[[], bool] = lambda: True,
) -> NonfiniteCheck:
    """Compare the patterns of NaN and infinity.

    Args:
        ours: The result of the device.
        right: That of the reference, in higher precision.
        dtype: Of the result.
        same: Gives the CPU's result in the same dtype, or None.
        given_finite: Says whether all that the call was given is finite.
    """
    if _sums_finite(ours) and _sums_finite(right) and _fits(right, dtype):
        return NonfiniteCheck(ours, right)
    rounded = right.to(_real(dtype)).to(right.dtype)
    value = ours.to(right.dtype)
    agree = _pattern(value) == _pattern(rounded)
    # at the edge of what the dtype holds, either side of it is right; NaN is nowhere near it
    edge = torch.finfo(_real(dtype)).max * (1 - 8 * unit(dtype))
    agree |= (right.abs() >= edge) & (value.abs() >= edge) & (right.sign() == value.sign())
    if not bool(agree.all()):
        return NonfiniteCheck(ours, right, verdict=_differ(value, rounded, agree, dtype, same, given_finite))
    finite = value.isfinite() & rounded.isfinite()
    nans, infinities = int(rounded.isnan().sum()), int(rounded.isinf().sum())
    remark = None
    if nans or infinities:
        remark = say("{nans} NaN and {infinities} infinities, as on the CPU", nans=nans, infinities=infinities)
    return NonfiniteCheck(torch.where(finite, value, 0.0), torch.where(finite, right, 0.0), finite, remark=remark)


def _differ(
    value: Tensor,
    rounded: Tensor,
    agree: Tensor,
    dtype: torch.dtype,
    same: Callable[[], Tensor | None],
    given_finite: Callable[[], bool],
) -> ResultVerdict:
    wrong = ~agree
    bad = int((wrong & ~value.isfinite()).sum())
    off = int(wrong.sum())
    measures = ErrorMeasures(max_abs=float("inf"), max_rel=float("inf"), elements=value.numel(), off=off, cosine=0.0)
    elements = first_off(value, rounded, wrong)
    its = same()
    if bad and its is not None and bool((_pattern(value) == _pattern(its)).all()):
        reason = say_plural(
            "{count} NaN or infinity, as on the CPU in the same dtype, but not in higher precision",
            "{count} NaN or infinities, as on the CPU in the same dtype, but not in higher precision",
            count=bad,
        )
        return ResultVerdict(Status.WARN, reason, measures, elements=elements)
    if bad:
        reason = say_plural(
            "{count} NaN or infinity where the CPU has none",
            "{count} NaN or infinities where the CPU has none",
            count=bad,
        )
        return ResultVerdict(Status.FAIL, reason, measures, elements=elements)
    status, reason = _hidden(wrong, rounded, its, dtype, given_finite)
    return ResultVerdict(status, reason, measures, elements=elements)


def _hidden(
    wrong: Tensor, rounded: Tensor, its: Tensor | None, dtype: torch.dtype, given_finite: Callable[[], bool]
) -> tuple[Status, Message]:
    """Judge finite numbers where the reference has none: an error, unless there is a reason to doubt the reference."""
    off, name = int(wrong.sum()), str(dtype).removeprefix("torch.")
    if its is None:
        return Status.WARN, say_plural(
            "{count} finite number where the CPU has NaN or infinity; the CPU cannot run this operator in {dtype}",
            "{count} finite numbers where the CPU has NaN or infinity; the CPU cannot run this operator in {dtype}",
            count=off,
            dtype=name,
        )
    both = int((wrong & (_pattern(its) == _pattern(rounded))).sum())
    if not both:
        return Status.WARN, say_plural(
            "{count} finite number where the CPU has NaN or infinity in higher precision, but not in {dtype}",
            "{count} finite numbers where the CPU has NaN or infinity in higher precision, but not in {dtype}",
            count=off,
            dtype=name,
        )
    if not given_finite():
        return Status.WARN, say_plural(
            "{count} finite number where the CPU has NaN or infinity; not all inputs are finite",
            "{count} finite numbers where the CPU has NaN or infinity; not all inputs are finite",
            count=both,
        )
    return Status.FAIL, say_plural(
        "{count} finite number where the CPU has NaN or infinity, also in {dtype}; all inputs are finite",
        "{count} finite numbers where the CPU has NaN or infinity, also in {dtype}; all inputs are finite",
        count=both,
        dtype=name,
    )


def _pattern(value: Tensor) -> Tensor:
    """Return 0 for finite, 1 and -1 for infinities, 2 for NaN."""
    kinds = torch.zeros(value.shape, dtype=torch.int8)
    kinds[value == float("inf")] = 1
    kinds[value == float("-inf")] = -1
    kinds[value.isnan()] = 2
    return kinds


def _sums_finite(value: Tensor) -> bool:
    low, high = torch.aminmax(value)
    return bool(torch.isfinite(low)) and bool(torch.isfinite(high))


def _fits(right: Tensor, dtype: torch.dtype) -> bool:
    low, high = torch.aminmax(right)
    edge = torch.finfo(_real(dtype)).max
    return max(abs(float(low)), abs(float(high))) < edge


def _real(dtype: torch.dtype) -> torch.dtype:
    parts = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
    return parts.get(dtype, dtype)
