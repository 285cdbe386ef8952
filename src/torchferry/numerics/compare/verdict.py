"""What a comparison came to: a status, why, and how far the values of the device are from the reference."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torchferry.core.messages import Message
from torchferry.numerics.compare.tolerances import TINY, ErrorBound, unit


class Status(enum.Enum):
    """What became of a call. Only what was compared can pass."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"
    UNTESTED = "untested"
    SKIPPED = "skipped"

    __hash__ = object.__hash__  # a member is itself alone; that of Enum is a function of Python's


ORDER = (Status.FAIL, Status.WARN, Status.UNTESTED, Status.PASS, Status.SKIPPED)
"""From the worst to the one that needs no attention."""


@dataclass(frozen=True)
class ErrorMeasures:
    """How far a result is from the reference, which is of higher precision.

    Attributes:
        max_abs: Greatest absolute error.
        max_rel: Greatest relative error, of elements against |reference| + 1e-7 (MARE of CANN's single benchmark).
        mean_rel: Mean relative error, likewise (MERE).
        rmse: Root of the mean square error.
        ulp: Greatest error in units in the last place of the result's dtype.
        cosine: Cosine of the angle between result and reference; 1 where both are zero.
        rmse_ratio: RMSE over that of the CPU in the same dtype; None where the CPU was not run in it.
        max_ratio: Greatest error over that of the CPU in the same dtype.
        of_bound: Greatest error over the analytic bound; at most 1 is within it.
        elements: Elements compared.
        off: Elements outside of the tolerance.
    """

    max_abs: float = 0.0
    max_rel: float = 0.0
    mean_rel: float = 0.0
    rmse: float = 0.0
    ulp: float = 0.0
    cosine: float = 1.0
    rmse_ratio: float | None = None
    max_ratio: float | None = None
    of_bound: float | None = None
    elements: int = 0
    off: int = 0


@dataclass(frozen=True)
class Element:
    """One element that differs: its index, the device's value, the reference's, and how far they are apart."""

    index: tuple[int, ...]
    device: str
    reference: str
    difference: str


@dataclass(frozen=True)
class ResultVerdict:
    """What the comparison of one result came to.

    Attributes:
        status: Pass, warn, fail or untested.
        reason: Why it is not a plain pass, or None.
        measures: How far it is; None where nothing could be measured.
        shape: Of the result.
        dtype: Of the result, as `float16`.
        elements: The first elements that differ.
    """

    status: Status
    reason: Message | None = None
    measures: ErrorMeasures | None = None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    elements: tuple[Element, ...] = ()

    def of(self, shape: tuple[int, ...], dtype: str) -> ResultVerdict:
        """Return the verdict as that of a result of this shape and dtype."""
        return ResultVerdict(self.status, self.reason, self.measures, shape, dtype, self.elements)

    @property
    def badness(self) -> tuple[int, float]:
        """By what the worst verdict of several is chosen: greater is worse."""
        measures = self.measures
        size = 0.0
        if measures is not None:
            size = measures.of_bound if measures.of_bound is not None else measures.max_rel
            size = math.inf if math.isnan(size) else size
        return len(ORDER) - ORDER.index(self.status), size


def worst(verdicts: list[ResultVerdict]) -> ResultVerdict:
    """Return the verdict of a call: that of its worst result."""
    return max(verdicts, key=lambda verdict: verdict.badness)


# Distances between a result and its reference, in pieces that stay in the cache.

_PIECE = 1 << 15
"""Elements of a piece: with its temporary values it stays in the second cache."""

_ZERO = 1e-7
"""Added to the denominator of relative errors, as CANN's single benchmark does."""


def pieces(device: Tensor, reference: Tensor, bound: ErrorBound) -> Iterator[tuple[Tensor, Tensor, float | Tensor]]:
    """Yield parts of a result, of its reference and of its absolute bound, in the reference's dtype."""
    flat, right = device.reshape(-1), reference.reshape(-1)
    absolute = bound.absolute.reshape(-1) if isinstance(bound.absolute, Tensor) else bound.absolute
    if right.numel() <= _PIECE:
        if right.numel():
            yield flat.to(right.dtype), right, absolute
        return
    for begin in range(0, right.numel(), _PIECE):
        end = begin + _PIECE
        yield (
            flat[begin:end].to(right.dtype),
            right[begin:end],
            absolute[begin:end] if isinstance(absolute, Tensor) else absolute,
        )


def of_bound(device: Tensor, reference: Tensor, bound: ErrorBound) -> float:
    """Return the greatest error over its bound; NaN or infinite where a value is not finite."""
    if 0 < reference.numel() <= _PIECE and _alike(device, reference, bound):
        return _greatest(device, reference, bound.absolute, bound.relative)  # as it lies, in the fewest operations
    greatest = 0.0
    for ours, right, absolute in pieces(device, reference, bound):
        worst = _greatest(ours, right, absolute, bound.relative) if ours is not right else 0.0
        if not worst <= greatest:
            greatest = worst
            if not math.isfinite(worst):
                return worst
    return greatest


def _greatest(ours: Tensor, right: Tensor, absolute: float | Tensor, relative: float) -> float:
    allowed = right.abs().mul_(relative).add_(absolute)
    return float(torch.sub(right, ours).abs_().div_(allowed).max())


def _alike(device: Tensor, reference: Tensor, bound: ErrorBound) -> bool:
    absolute = bound.absolute
    return (
        device is not reference
        and device.shape == reference.shape
        and (not isinstance(absolute, Tensor) or absolute.shape == reference.shape)
    )


def measure(device: Tensor, reference: Tensor, bound: ErrorBound, dtype: torch.dtype) -> ErrorMeasures:
    """Measure a result that is finite wherever its reference is; other elements must have been put to zero in both."""
    count = reference.numel()
    if count == 0:
        return ErrorMeasures()
    most = relative = total = squares = both = ours_squared = right_squared = fraction = 0.0
    ulp, off = 0.0, 0
    spacing = 2 * unit(dtype)
    for ours, right, absolute in pieces(device, reference, bound):
        size = right.abs()
        error = (ours - right).abs_()
        allowed = (size * bound.relative).add_(absolute)
        over = error / allowed
        fraction = max(fraction, float(over.max()))
        if fraction > 1:
            off += int((over > 1).sum())
        most = max(most, float(error.max()))
        total += float((error / (size + _ZERO)).sum())
        quotient = error / (size + _ZERO)
        at = int(quotient.argmax())
        relative = max(relative, float(quotient[at]))
        ulp = max(ulp, _units(float(error[at]), float(size[at]), spacing, dtype))
        squares += float(torch.dot(error, error))
        both += float(torch.dot(ours, right))
        ours_squared += float(torch.dot(ours, ours))
        right_squared += float(torch.dot(right, right))
    if ours_squared == 0 or right_squared == 0:
        cosine = 1.0 if ours_squared == right_squared else 0.0
    else:
        cosine = min(1.0, both / math.sqrt(ours_squared) / math.sqrt(right_squared))
    return ErrorMeasures(
        max_abs=most,
        max_rel=relative,
        mean_rel=total / count,
        rmse=math.sqrt(squares / count),
        ulp=ulp,
        cosine=cosine,
        of_bound=fraction,
        elements=count,
        off=off,
    )


def _units(error: float, size: float, spacing: float, dtype: torch.dtype) -> float:
    """Return an error in units in the last place of a number of this size."""
    small = TINY.get(dtype, 2.0**-126)
    _, exponent = math.frexp(max(size, small))
    return error / (spacing * 2.0 ** (exponent - 1))


def ratios(device: Tensor, same: Tensor, reference: Tensor, dtype: torch.dtype) -> tuple[float, float]:
    """Return RMSE and greatest error of the device over those of the CPU in the same dtype, both against the reference.

    What a sixteenth of rounding the reference gives is added below, so that a CPU that happens to be right demands no
    wonders.
    """
    count = max(1, reference.numel())
    ours_squares = same_squares = ours_most = same_most = sizes = greatest = 0.0
    none = ErrorBound(0.0, 0.0)
    for (ours, right, _), (other, _, _) in zip(
        pieces(device, reference, none), pieces(same, reference, none), strict=True
    ):
        error = (ours - right).abs_()
        its = (other - right).abs_()
        size = right.abs()
        ours_squares += float(torch.dot(error, error))
        same_squares += float(torch.dot(its, its))
        ours_most = max(ours_most, float(error.max()))
        same_most = max(same_most, float(its.max()))
        sizes += float(size.sum())
        greatest = max(greatest, float(size.max()))
    floor = unit(dtype) / 16
    small = TINY.get(dtype, 2.0**-126)
    rmse = math.sqrt(ours_squares / count) / (math.sqrt(same_squares / count) + floor * sizes / count + small)
    return rmse, ours_most / (same_most + floor * greatest + small)


_SHOWN = 20
"""Elements that differ and are shown."""


def first_off(device: Tensor, reference: Tensor, wrong: Tensor) -> tuple[Element, ...]:
    """Return the first elements that differ, for people."""
    elements = []
    for position in wrong.reshape(-1).nonzero().reshape(-1)[:_SHOWN].tolist():
        index = _index(position, tuple(reference.shape))
        ours, right = device.reshape(-1)[position], reference.reshape(-1)[position]
        value, other = ours.item(), right.item()
        elements.append(Element(index, str(value), str(other), f"{abs(value - other):.6g}"))
    return tuple(elements)


def _index(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        position, rest = divmod(position, size)
        index.append(rest)
    return tuple(reversed(index))


def with_ratios(measures: ErrorMeasures, pair: tuple[float, float]) -> ErrorMeasures:
    """Return measures with the ratios to the CPU in the same dtype."""
    return replace(measures, rmse_ratio=pair[0], max_ratio=pair[1])
