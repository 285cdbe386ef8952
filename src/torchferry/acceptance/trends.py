"""What a row of measurements tends to: growth of memory by step, time of a step beside another machine's.

Neighbouring measurements are alike, so the formulas for independent ones would promise far too much. A row is cut into
ten parts of equal length, and what is computed rests on their means, with Student's distribution: the method of batch
means (Law, Simulation Modeling and Analysis, 5th ed., 9.5.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median_low, variance

from torchferry.core.record import NamedTuple

PARTS = 10

_T8, _T18 = 2.306, 2.101
"""Student's 97.5 % points with 8 and 18 degrees of freedom."""

LEAST_STEPS = 200
"""Steps without which growth is not judged."""


class Estimate(NamedTuple):
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float


def slope(xs: Sequence[float], ys: Sequence[float]) -> Estimate:
    """Return how much `ys` rise for each 1 of `xs`: least squares through the means of `PARTS` parts.

    Raises:
        ValueError: there are fewer than two values for each part.
    """
    across, up = _means(xs), _means(ys)
    middle, level = fmean(across), fmean(up)
    spread = sum((x - middle) ** 2 for x in across)
    if spread == 0:
        raise ValueError("all steps are one")
    value = sum((x - middle) * (y - level) for x, y in zip(across, up, strict=True)) / spread
    left = sum((y - level - value * (x - middle)) ** 2 for x, y in zip(across, up, strict=True))
    half = _T8 * math.sqrt(left / (PARTS - 2) / spread)
    return Estimate(value, value - half, value + half)


def ratio(target: Sequence[float], base: Sequence[float]) -> Estimate:
    """Return the mean of `target` divided by that of `base`: the difference of the logarithms of the parts' means.

    Raises:
        ValueError: a side has fewer than two values for each part, or one that is not above 0.
    """
    sides = [[math.log(mean) for mean in _means(values)] for values in (target, base)]
    value = fmean(sides[0]) - fmean(sides[1])
    half = _T18 * math.sqrt((variance(sides[0]) + variance(sides[1])) / PARTS)
    return Estimate(math.exp(value), math.exp(value - half), math.exp(value + half))


def _means(values: Sequence[float]) -> list[float]:
    if len(values) < 2 * PARTS:
        raise ValueError(f"{len(values)} values are too few")
    return _means_of_parts(values, PARTS)


def _means_of_parts(values: Sequence[float], parts: int) -> list[float]:
    edges = [len(values) * part // parts for part in range(parts + 1)]
    return [fmean(values[edges[part] : edges[part + 1]]) for part in range(parts)]


def _steady_rise(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return how much `ys` rise for each 1 of `xs` between fifths, at least in three of four: no jump counts."""
    across, up = (_means_of_parts(values, 5) for values in (xs, ys))
    return median_low((up[i + 1] - up[i]) / (across[i + 1] - across[i]) for i in range(4))


class MemoryGrowth(NamedTuple):
    """What a row of sizes tends to.

    Attributes:
        kind: `flat`, `grows`, `settled` (it grew, and stopped too late to be sure) or `unclear`.
        slope: Bytes a step, over `steps`; None where there are too few.
        first, last: The steps between which it was measured.
        peak: The largest size.
    """

    kind: str
    slope: Estimate | None
    first: int
    last: int
    peak: float


FLAT, GROWS, SETTLED, UNCLEAR, SHORT = "flat", "grows", "settled", "unclear", "short"


def growth(steps: Sequence[float], sizes: Sequence[float], limit: float) -> MemoryGrowth:
    """Say whether sizes grow by more than `limit` bytes a step: with the whole interval of the slope.

    Looked at is the last half of the steps, and at least `LEAST_STEPS` of them: what fills a cache at the beginning is
    no leak. What grew over them and not steadily over their last quarter may be either, and is `settled`: a leak grows
    again and again, and memory that the process asks for in one piece does not.
    """
    if not steps or steps[-1] - steps[0] + 1 < LEAST_STEPS or len(steps) < 2 * PARTS:
        return MemoryGrowth(
            SHORT, None, int(min(steps, default=0)), int(max(steps, default=0)), max(sizes, default=0.0)
        )
    first = min(steps[len(steps) // 2], steps[-1] - LEAST_STEPS + 1)
    begin = next(index for index, step in enumerate(steps) if step >= first)
    if len(steps) - begin < 2 * PARTS:
        begin = len(steps) - 2 * PARTS
    across, up = steps[begin:], sizes[begin:]
    measured = slope(across, up)
    kind = UNCLEAR
    if measured.high < limit:
        kind = FLAT
    elif measured.low > limit:
        late = 3 * len(up) // 4
        kind = GROWS if _steady_rise(across[late:], up[late:]) > limit else SETTLED
    return MemoryGrowth(kind, measured, int(across[0]), int(across[-1]), max(sizes))
