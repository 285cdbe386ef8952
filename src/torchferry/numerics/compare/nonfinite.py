"""NaN and infinity in a result, beside those that the reference has after rounding to the dtype of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
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


def judge(ours: Tensor, right: Tensor, dtype: torch.dtype, same: Callable[[], Tensor | None]) -> Found:
    """Compare the patterns of NaN and infinity."""
    if _sums_finite(ours) and _sums_finite(right) and _fits(right, dtype):
        return Found(ours, right)
    rounded = right.to(_real(dtype)).to(right.dtype)
    value = ours.to(right.dtype)
    agree = _pattern(value) == _pattern(rounded)
    # at the edge of what the dtype holds, either side of it is right
    edge = torch.finfo(_real(dtype)).max
    agree |= (
        (right.abs() >= edge * (1 - 8 * unit(dtype))) & ~right.isnan() & ~value.isnan() & (right.sign() == value.sign())
    )
    if not bool(agree.all()):
        verdict = _differ(value, rounded, agree, same)
        if verdict.status is Status.FAIL:
            return Found(ours, right, verdict=verdict)
        return Found(ours, right, verdict=verdict)
    finite = value.isfinite() & rounded.isfinite()
    nans, infinities = int(rounded.isnan().sum()), int(rounded.isinf().sum())
    remark = None
    if nans or infinities:
        remark = say("{nans} NaN and {infinities} infinities, as on the CPU", nans=nans, infinities=infinities)
    return Found(torch.where(finite, value, 0.0), torch.where(finite, right, 0.0), finite, remark=remark)


def _differ(value: Tensor, rounded: Tensor, agree: Tensor, same: Callable[[], Tensor | None]) -> Verdict:
    wrong = ~agree
    bad = int((wrong & ~value.isfinite()).sum())
    off = int(wrong.sum())
    measures = Measures(max_abs=float("inf"), max_rel=float("inf"), elements=value.numel(), off=off, cosine=0.0)
    elements = first_off(value, rounded, wrong, _SHOWN)
    its = same()
    if its is not None and bool((_pattern(value) == _pattern(its)).all()):
        reason = say("{count} NaN or infinities, as on the CPU in the same dtype: it overflows inside", count=off)
        return Verdict(Status.WARN, reason, measures, elements=elements)
    if not bad:
        reason = say("{count} finite numbers where the CPU has NaN or infinity", count=off)
        return Verdict(Status.WARN, reason, measures, elements=elements)
    reason = say("{count} NaN or infinities where the CPU has none", count=bad)
    return Verdict(Status.FAIL, reason, measures, elements=elements)


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
