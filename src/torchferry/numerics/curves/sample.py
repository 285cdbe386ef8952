"""What a log says at one place: a value of a metric, and what is known of when it was."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from torchferry.core.messages import Message


class Sample(NamedTuple):
    """One value of one metric.

    Attributes:
        metric: As the log writes it.
        value: May be NaN or infinite.
        epoch: The epoch as the log counts it; may be a fraction; None where the log does not say.
        step: The step, within the epoch or over all; None where the log does not say.
        rank: The process that wrote it; None where the log does not say.
        bar: Whether it was drawn by a progress bar, whose steps begin anew with each bar.
    """

    metric: str
    value: float
    epoch: float | None = None
    step: float | None = None
    rank: int | None = None
    bar: bool = False


class Trouble(NamedTuple):
    """Something that was left out of a log while it was read."""

    what: Message


_SEPARATORS = re.compile(r"[\s._/\-]+")
_BRACKETS = str.maketrans("", "", "()[]{}\"'")


@lru_cache(maxsize=4096)
def plain(metric: str) -> str:
    """Return the name by which metrics are told apart: `train/Loss`, `train_loss` and `train.loss` are one."""
    return _SEPARATORS.sub(" ", metric.translate(_BRACKETS)).strip().lower()
