"""One curve of a log: which step each value belongs to, after restarts, repetitions and several ranks are resolved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.curves.reading import Points

Key = tuple[float, float]
"""Epoch and step; where only one of them is known, the other is 0. In a curve without either, the step is the order."""

RESTARTS = ("auto", "replace", "epoch")
"""What a step that goes back means: a run that began again and replaces what it repeats, or the next epoch."""

REPEATED = ("last", "first", "mean")
"""Which of several values at one step counts."""

_TIE = 6
"""Digits of a fractional epoch by which two logs are put side by side."""


class Form:
    """What a curve's keys are made of."""

    STEP = "step"
    EPOCH = "epoch"
    BOTH = "epoch and step"
    ORDER = "order"


@dataclass(frozen=True)
class Habits:
    """How a log is to be understood where it can be understood in two ways.

    Attributes:
        restarts: One of `RESTARTS`.
        repeated: One of `REPEATED`.
        rank: Which rank's values count; None: the lowest that there is.
        by_order: Whether steps are not to be looked at.
    """

    restarts: str = "auto"
    repeated: str = "last"
    rank: int | None = None
    by_order: bool = False


@dataclass(frozen=True)
class Curve:
    """Values by step, in rising order of steps.

    Attributes:
        metric: As the log writes it.
        form: What the keys are, one of `Form`.
        keys: Steps, rising.
        values: One for each key; may be NaN or infinite.
        notes: What was resolved, for the reader of a report.
    """

    metric: str
    form: str
    keys: tuple[Key, ...]
    values: tuple[float, ...]
    notes: tuple[Message, ...] = ()


def shown(key: Key, form: str) -> str:
    """Return a step as people write it: `120`, `epoch 3`, `epoch 3 step 120`."""
    epoch, step = (f"{part:.{_TIE}f}".rstrip("0").rstrip(".") for part in key)
    if form == Form.EPOCH:
        return f"epoch {epoch}" if key[1] == 0 else f"epoch {epoch} #{step}"
    if form == Form.BOTH:
        return f"epoch {epoch} step {step}"
    return f"#{int(key[1]) + 1}" if form == Form.ORDER else step


def curve_of(ranks: dict[int | None, Points], habits: Habits) -> Curve:
    """Return the curve of a metric.

    Raises:
        UsageError: the rank that is asked for wrote nothing of it.
    """
    points, notes = _of_one_rank(ranks, habits.rank)
    keys, form, more = _keys(points, habits)
    notes += more
    return _settled(points, keys, form, habits, notes)


def _of_one_rank(ranks: dict[int | None, Points], rank: int | None) -> tuple[Points, list[Message]]:
    numbered = sorted(known for known in ranks if known is not None)
    if not numbered:
        if rank is not None:
            raise UsageError(say("no line says which rank wrote it, so rank {rank} cannot be chosen", rank=rank))
        return ranks[None], []
    chosen = numbered[0] if rank is None else rank
    if chosen not in ranks:
        known = ", ".join(map(str, numbered))
        raise UsageError(
            say("rank {rank} wrote nothing of this metric; ranks in the log: {known}", rank=chosen, known=known)
        )
    if len(ranks) == 1:
        return ranks[chosen], []
    others = len(ranks) - 1
    return ranks[chosen], [
        say_plural(
            "rank {rank} counts; {count} other wrote this metric too",
            "rank {rank} counts; {count} others wrote this metric too",
            rank=chosen,
            count=others,
        )
    ]


def _keys(points: Points, habits: Habits) -> tuple[list[Key], str, list[Message]]:
    count = len(points.values)
    with_step = count - sum(map(math.isnan, points.steps))
    with_epoch = count - sum(map(math.isnan, points.epochs))
    in_order: list[Key] = [(0.0, float(index)) for index in range(count)]
    if habits.by_order or (not with_step and not with_epoch):
        return in_order, Form.ORDER, []
    if max(with_step, with_epoch) < count:
        told = say_plural(
            "only {some} of {count} value has a step; all are taken in order",
            "only {some} of {count} values have a step; all are taken in order",
            some=max(with_step, with_epoch),
            count=count,
        )
        return in_order, Form.ORDER, [told]
    whole_epochs = with_epoch == count and all(epoch == int(epoch) for epoch in points.epochs if math.isfinite(epoch))
    if with_step < count:
        return _by_epoch(points), Form.EPOCH, []
    rising = all(a <= b for a, b in zip(points.steps, points.steps[1:], strict=False))
    if rising or (not whole_epochs and not _begins_anew(points, habits)):
        return [(0.0, step) for step in points.steps], Form.STEP, []
    if whole_epochs:
        return list(zip(points.epochs, points.steps, strict=True)), Form.BOTH, []
    keys, passes = _counted_epochs(points, habits)
    return (
        keys,
        Form.BOTH,
        [
            say_plural(
                "the step begins anew {count} time, taken as epochs",
                "the step begins anew {count} times, taken as epochs",
                count=passes,
            )
        ],
    )


def _by_epoch(points: Points) -> list[Key]:
    """Return keys of values that have an epoch alone: the fraction, or the epoch and the place in it."""
    keys: list[Key] = []
    place = 0
    fractional = any(epoch != int(epoch) for epoch in points.epochs if math.isfinite(epoch))
    for index, epoch in enumerate(points.epochs):
        place = place + 1 if index and epoch == points.epochs[index - 1] and not fractional else 0
        keys.append((round(epoch, _TIE), float(place)))
    return keys


def _begins_anew(points: Points, habits: Habits) -> bool:
    if habits.restarts == "epoch" or (points.bars and habits.restarts == "auto"):
        return True
    if habits.restarts == "replace":
        return False
    first = points.steps[0]
    backs = [b for a, b in zip(points.steps, points.steps[1:], strict=False) if b < a]
    return bool(backs) and all(step <= first for step in backs)


def _counted_epochs(points: Points, habits: Habits) -> tuple[list[Key], int]:
    keys: list[Key] = []
    epoch = 0
    for index, step in enumerate(points.steps):
        if index and step < points.steps[index - 1]:
            epoch += 1
        keys.append((float(epoch), step))
    return keys, epoch


def _settled(points: Points, keys: list[Key], form: str, habits: Habits, notes: list[Message]) -> Curve:
    kept: list[Key] = []
    values: list[list[float]] = []
    restarts = replaced = repeated = 0
    for key, value in zip(keys, points.values, strict=True):
        if kept and key < kept[-1]:
            restarts += 1
            while kept and kept[-1] >= key:
                kept.pop()
                values.pop()
                replaced += 1
        if kept and key == kept[-1]:
            repeated += not points.bars
            values[-1].append(value)
            continue
        kept.append(key)
        values.append([value])
    if restarts:
        notes.append(
            say_plural(
                "the step goes back {count} time; the later values count and {replaced} were replaced",
                "the step goes back {count} times; the later values count and {replaced} were replaced",
                count=restarts,
                replaced=replaced,
            )
        )
    if repeated:
        notes.append(
            say_plural(
                "{count} value repeats a step; {which} counts",
                "{count} values repeat a step; {which} counts",
                count=repeated,
                which=_WHICH[habits.repeated],
            )
        )
    pick = {"last": lambda many: many[-1], "first": lambda many: many[0], "mean": fmean}[habits.repeated]
    chosen = tuple(float(many[0] if len(many) == 1 else pick(many)) for many in values)
    return Curve(points.metric, form, tuple(kept), chosen, tuple(notes))


_WHICH = {"last": say("the last"), "first": say("the first"), "mean": say("their mean")}
"""Words for `REPEATED`."""
