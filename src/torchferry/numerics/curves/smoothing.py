"""Smoothing of a curve before it is compared or drawn; what is not finite stays as it is and enters no mean."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from torchferry.core.errors import UsageError
from torchferry.core.messages import say


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
    raise UsageError(say("`{text}` is no smoothing", text=text), say("write none, ema:0.9 or window:20"))


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
