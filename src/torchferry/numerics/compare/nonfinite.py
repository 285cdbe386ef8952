"""NaN and infinity in a result, beside those that the reference has after rounding to the dtype of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.compare.measuring import first_off
from torchferry.numerics.compare.status import Measures, Status, Verdict
from torchferry.numerics.compare.tolerances import unit

_SHOWN = 20


@dataclass
class Found:
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
    verdict: Verdict | None = None
    remark: Message | None = None


def judge(
    ours: Tensor,
    right: Tensor,
    dtype: torch.dtype,
    same: Callable[[], Tensor | None],
    given_finite: Callable[[], bool] = lambda: True,
) -> Found:
    """Compare the patterns of NaN and infinity.

    Args:
        ours: The result of the device.
        right: That of the reference, in higher precision.
        dtype: Of the result.
        same: Gives the CPU's result in the same dtype, or None.
        given_finite: Says whether all that the call was given is finite.
    """
    if _sums_finite(ours) and _sums_finite(right) and _fits(right, dtype):
        return Found(ours, right)
    rounded = right.to(_real(dtype)).to(right.dtype)
    value = ours.to(right.dtype)
    agree = _pattern(value) == _pattern(rounded)
    # at the edge of what the dtype holds, either side of it is right; NaN is nowhere near it
    edge = torch.finfo(_real(dtype)).max * (1 - 8 * unit(dtype))
    agree |= (right.abs() >= edge) & (value.abs() >= edge) & (right.sign() == value.sign())
    if not bool(agree.all()):
        return Found(ours, right, verdict=_differ(value, rounded, agree, dtype, same, given_finite))
    finite = value.isfinite() & rounded.isfinite()
    nans, infinities = int(rounded.isnan().sum()), int(rounded.isinf().sum())
    remark = None
    if nans or infinities:
        remark = say("{nans} NaN and {infinities} infinities, as on the CPU", nans=nans, infinities=infinities)
    return Found(torch.where(finite, value, 0.0), torch.where(finite, right, 0.0), finite, remark=remark)


def _differ(
    value: Tensor,
    rounded: Tensor,
    agree: Tensor,
    dtype: torch.dtype,
    same: Callable[[], Tensor | None],
    given_finite: Callable[[], bool],
) -> Verdict:
    wrong = ~agree
    bad = int((wrong & ~value.isfinite()).sum())
    off = int(wrong.sum())
    measures = Measures(max_abs=float("inf"), max_rel=float("inf"), elements=value.numel(), off=off, cosine=0.0)
    elements = first_off(value, rounded, wrong, _SHOWN)
    its = same()
    if its is not None and bool((_pattern(value) == _pattern(its)).all()):
        reason = say_plural(
            "{count} NaN or infinity, as on the CPU in the same dtype: it overflows inside",
            "{count} NaN or infinities, as on the CPU in the same dtype: it overflows inside",
            count=off,
        )
        return Verdict(Status.WARN, reason, measures, elements=elements)
    if bad:
        reason = say_plural(
            "{count} NaN or infinity where the CPU has none",
            "{count} NaN or infinities where the CPU has none",
            count=bad,
        )
        return Verdict(Status.FAIL, reason, measures, elements=elements)
    status, reason = _hidden(wrong, rounded, its, dtype, given_finite)
    return Verdict(status, reason, measures, elements=elements)


def _hidden(
    wrong: Tensor, rounded: Tensor, its: Tensor | None, dtype: torch.dtype, given_finite: Callable[[], bool]
) -> tuple[Status, Message]:
    """Judge finite numbers where the reference has none: an error, unless there is a reason to doubt the reference."""
    off, name = int(wrong.sum()), str(dtype).removeprefix("torch.")
    if its is None:
        return Status.WARN, say_plural(
            "{count} finite number where the CPU has NaN or infinity; it cannot run in {dtype}",
            "{count} finite numbers where the CPU has NaN or infinity; it cannot run in {dtype}",
            count=off,
            dtype=name,
        )
    both = int((wrong & (_pattern(its) == _pattern(rounded))).sum())
    if not both:
        return Status.WARN, say_plural(
            "{count} finite number where the CPU has NaN or infinity, in higher precision and not in {dtype}",
            "{count} finite numbers where the CPU has NaN or infinity, in higher precision and not in {dtype}",
            count=off,
            dtype=name,
        )
    if not given_finite():
        return Status.WARN, say_plural(
            "{count} finite number where the CPU has NaN or infinity, of inputs that are not all finite",
            "{count} finite numbers where the CPU has NaN or infinity, of inputs that are not all finite",
            count=both,
        )
    return Status.FAIL, say_plural(
        "{count} finite number where the CPU has NaN or infinity, in {dtype} too, of finite inputs",
        "{count} finite numbers where the CPU has NaN or infinity, in {dtype} too, of finite inputs",
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
