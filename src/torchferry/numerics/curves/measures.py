"""How far one curve is from another, in numbers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.numerics.curves.curve import Key

# Smoothing of a curve before it is compared or drawn; what is not finite stays as it is and enters no mean.


class Smoothing(NamedTuple):
    """How a curve is smoothed: `kind` is `none`, `ema` (amount: weight of the past) or `window` (amount: steps)."""

    kind: str = "none"
    amount: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind == "none" else f"{self.kind}:{self.amount:g}"

    def __call__(self, values: Sequence[float]) -> tuple[float, ...]:
        """Return the smoothed values."""
        if self.kind == "ema":
            return _ema(values, self.amount)
        if self.kind == "window":
            return _window(values, int(self.amount))
        return tuple(values)


def parse(text: str) -> Smoothing:
    """Read `none`, `ema:0.9` or `window:20`.

    Raises:
        UsageError: it is none of them.
    """
    kind, _, amount = text.partition(":")
    try:
        number = float(amount) if amount else 0.0
    except ValueError:
        number = math.nan
    if kind == "none" and not amount:
        return Smoothing()
    if kind == "ema" and 0 < number < 1:
        return Smoothing("ema", number)
    if kind == "window" and number >= 1 and number == int(number):
        return Smoothing("window", number)
    raise UsageError(
        say("--smooth: `{text}` is not a way of smoothing", text=text), say("write none, ema:0.9 or window:20")
    )


def _ema(values: Sequence[float], weight: float) -> tuple[float, ...]:
    """Return the exponential mean, freed of the pull to zero that its first values have."""
    smoothed = []
    mean = 0.0
    share = 0.0
    for value in values:
        if math.isfinite(value):
            mean = weight * mean + (1 - weight) * value
            share = weight * share + (1 - weight)
            smoothed.append(mean / share)
        else:
            smoothed.append(value)
    return tuple(smoothed)


def _window(values: Sequence[float], size: int) -> tuple[float, ...]:
    """Return the mean of each value and the finite ones before it, `size` in all."""
    smoothed = []
    recent: deque[float] = deque(maxlen=size)
    for value in values:
        if math.isfinite(value):
            recent.append(value)
            smoothed.append(math.fsum(recent) / len(recent))
        else:
            smoothed.append(value)
    return tuple(smoothed)


@dataclass(frozen=True)
class CurveMeasures:
    """The distance of a target's curve from the reference's; relative ones are shares of the reference's value.

    Attributes:
        count: Steps at which both values are finite; the others enter no mean.
        broken: The first step at which the target is NaN or infinite and the reference is not.
        broken_count: How many such steps there are.
        unusable: Steps at which the reference itself is NaN or infinite.
        zeros: Steps at which the reference is 0 and the target is not: they have no relative error.
        mean_relative, mean_absolute: Means of the errors without sign; None where no step has one.
        signed_relative, signed: Means of (target - reference) / reference, and of target - reference.
        max_relative, max_absolute: Largest errors without sign, with their steps.
        first_relative, first_absolute, final_relative, final_absolute: At the first and the last step.
        correlation: Of the two curves (Pearson); None where one of them is constant.
        first_beyond: The first step whose relative error is beyond `tolerance`.
        beyond: How many steps are.
        lasting_from: From which step to the end all are beyond; None where the last one is not.
        tolerance: What `first_beyond` is counted against.
    """

    count: int
    tolerance: float
    broken: Key | None = None
    broken_count: int = 0
    unusable: int = 0
    zeros: int = 0
    mean_relative: float | None = None
    mean_absolute: float | None = None
    signed_relative: float | None = None
    signed: float | None = None
    max_relative: float | None = None
    max_relative_at: Key | None = None
    max_absolute: float | None = None
    max_absolute_at: Key | None = None
    first_relative: float | None = None
    first_absolute: float | None = None
    final_relative: float | None = None
    final_absolute: float | None = None
    correlation: float | None = None
    first_beyond: Key | None = None
    beyond: int = 0
    lasting_from: Key | None = None


def relative_error(reference: float, target: float) -> float | None:
    """Return (target - reference) / |reference|; None where it has none, 0 where both are 0."""
    if not (math.isfinite(reference) and math.isfinite(target)):
        return None
    if reference == 0:
        return 0.0 if target == 0 else None
    error = (target - reference) / abs(reference)
    # the difference of values near the largest float is none
    return error if math.isfinite(error) else target / abs(reference) - math.copysign(1.0, reference)


def measure(
    keys: Sequence[Key], reference: Sequence[float], target: Sequence[float], tolerance: float
) -> CurveMeasures:
    """Measure `target` against `reference`; `tolerance` is a relative error."""
    broken = [k for k, r, t in zip(keys, reference, target, strict=True) if math.isfinite(r) and not math.isfinite(t)]
    unusable = sum(not math.isfinite(value) for value in reference)
    both = [(k, r, t) for k, r, t in zip(keys, reference, target, strict=True) if math.isfinite(r) and math.isfinite(t)]
    if not both:
        return CurveMeasures(0, tolerance, next(iter(broken), None), len(broken), unusable)
    differences = [t - r for _, r, t in both]
    relatives = [relative_error(r, t) for _, r, t in both]
    by_size = [(abs(error), key) for error, (key, _, _) in zip(relatives, both, strict=True) if error is not None]
    signed = [math.copysign(1.0, r) * e for e, (_, r, _) in zip(relatives, both, strict=True) if e is not None]
    sizes = [abs(difference) for difference in differences]
    far = [error is None or abs(error) > tolerance for error in relatives]
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    worst = max(by_size, key=lambda pair: pair[0], default=(None, None))
    return CurveMeasures(
        count=len(both),
        tolerance=tolerance,
        broken=next(iter(broken), None),
        broken_count=len(broken),
        unusable=unusable,
        zeros=len(both) - len(by_size),
        mean_relative=_mean([error for error, _ in by_size]),
        mean_absolute=_mean(sizes),
        signed_relative=_mean(signed),
        signed=_mean(differences),
        max_relative=worst[0],
        max_relative_at=worst[1],
        max_absolute=sizes[largest],
        max_absolute_at=both[largest][0],
        first_relative=None if relatives[0] is None else abs(relatives[0]),
        first_absolute=sizes[0],
        final_relative=None if relatives[-1] is None else abs(relatives[-1]),
        final_absolute=sizes[-1],
        correlation=_correlation([r for _, r, _ in both], [t for _, _, t in both]),
        first_beyond=next((key for (key, _, _), beyond in zip(both, far, strict=True) if beyond), None),
        beyond=sum(far),
        lasting_from=_lasting([key for key, _, _ in both], far),
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(value / len(values) for value in values) if values else None


def _lasting(keys: Sequence[Key], far: Sequence[bool]) -> Key | None:
    start = None
    for key, beyond in zip(reversed(keys), reversed(far), strict=True):
        if not beyond:
            break
        start = key
    return start


def _correlation(first: Sequence[float], other: Sequence[float]) -> float | None:
    # scaled first, so that squares of values near the largest float do not overflow
    first, other = _scaled(first), _scaled(other)
    count = len(first)
    if count < 2:
        return None
    mean_one, mean_other = math.fsum(first) / count, math.fsum(other) / count
    covariance = math.fsum((a - mean_one) * (b - mean_other) for a, b in zip(first, other, strict=True))
    spread = math.fsum((a - mean_one) ** 2 for a in first) * math.fsum((b - mean_other) ** 2 for b in other)
    return covariance / math.sqrt(spread) if spread > 0 else None


def _scaled(values: Sequence[float]) -> list[float]:
    largest = max(map(abs, values), default=0.0)
    return [value / largest for value in values] if largest else list(values)
