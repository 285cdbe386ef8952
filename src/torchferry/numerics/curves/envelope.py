"""The spread of the reference's own runs, which is what two runs on one machine differ by.

Each run of the reference is measured against the mean of the others. A run of the target, measured against the mean of
all, may be as far as the farthest of them times a factor: with few runs the farthest one is itself uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from torchferry.numerics.curves.curve import Key
from torchferry.numerics.curves.measures import measure

FACTOR = 2.0
"""How many times the reference's own spread the target may be away, where the user says no other."""


@dataclass(frozen=True)
class Envelope:
    """How far the target is from the reference beside how far the reference is from itself.

    Attributes:
        own: Mean relative errors of each run of the reference against the others.
        target: Mean relative errors of each run of the target against all of the reference; None where it has none.
        inside: Share of the target's values between the lowest and the highest of the reference at that step.
        bias: Signed mean relative error of the target's mean.
        factor: How many times the largest of `own` each of `target` may be.
    """

    own: tuple[float, ...]
    target: tuple[float | None, ...]
    inside: float
    bias: float | None
    factor: float

    @property
    def allowed(self) -> float:
        """Return the largest mean relative error that is within the spread."""
        return max(self.own, default=0.0) * self.factor

    @property
    def met(self) -> bool:
        """Say whether every run of the target is within the spread."""
        return bool(self.own) and all(error is not None and error <= self.allowed for error in self.target)


def envelope(
    keys: Sequence[Key], references: Sequence[Sequence[float]], targets: Sequence[Sequence[float]], factor: float
) -> Envelope:
    """Measure runs of the target against two or more runs of the reference."""
    own = []
    for index, run in enumerate(references):
        rest = [other for place, other in enumerate(references) if place != index]
        error = measure(keys, _mean(rest), run, 0.0).mean_relative
        if error is not None:
            own.append(error)
    middle = _mean(references)
    errors = tuple(measure(keys, middle, run, 0.0).mean_relative for run in targets)
    within = total = 0
    for run in targets:
        for value, column in zip(run, zip(*references, strict=True), strict=True):
            total += 1
            within += min(column) <= value <= max(column)
    bias = measure(keys, middle, _mean(targets), 0.0).signed_relative
    return Envelope(tuple(own), errors, within / total if total else 0.0, bias, factor)


def _mean(runs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(fmean(values) for values in zip(*runs, strict=True))
