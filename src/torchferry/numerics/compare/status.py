"""What a comparison came to: a status, why, and how far the device's values are from the reference."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from torchferry.core.messages import Message


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
class Measures:
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
class Verdict:
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
    measures: Measures | None = None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    elements: tuple[Element, ...] = ()

    def of(self, shape: tuple[int, ...], dtype: str) -> Verdict:
        """Return the verdict as that of a result of this shape and dtype."""
        return Verdict(self.status, self.reason, self.measures, shape, dtype, self.elements)

    @property
    def badness(self) -> tuple[int, float]:
        """By what the worst verdict of several is chosen: greater is worse."""
        measures = self.measures
        size = 0.0
        if measures is not None:
            size = measures.of_bound if measures.of_bound is not None else measures.max_rel
            size = math.inf if math.isnan(size) else size
        return len(ORDER) - ORDER.index(self.status), size


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the verdict of a call: that of its worst result."""
    return max(verdicts, key=lambda one: one.badness)
