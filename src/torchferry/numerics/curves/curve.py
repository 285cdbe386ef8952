"""One curve of a log: which step each value belongs to, after restarts, repetitions and several ranks are resolved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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


class KeyKind:
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
        form: What the keys are, one of `KeyKind`.
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
    if form == KeyKind.EPOCH:
        return f"epoch {epoch}" if key[1] == 0 else f"epoch {epoch} #{step}"
    if form == KeyKind.BOTH:
        return f"epoch {epoch} step {step}"
    return f"#{int(key[1]) + 1}" if form == KeyKind.ORDER else step


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
    numbered = sorted(rank_list for rank_list in ranks if rank_list is not None)
    if not numbered:
        if rank is not None:
            raise UsageError(
                say("no line of the log names its rank, so rank {rank} cannot be chosen", rank=rank),
                say("leave out --rank, or give the rank with --pattern '...(?P<rank>\\d+)...'"),
            )
        return ranks[None], []
    chosen = numbered[0] if rank is None else rank
    if chosen not in ranks:
        rank_list = ", ".join(map(str, numbered))
        raise UsageError(
            say("rank {rank} has no value of this metric in the log", rank=chosen),
            say("choose another one with --rank; ranks in the log: {known}", known=rank_list),
        )
    if len(ranks) == 1:
        return ranks[chosen], []
    others = len(ranks) - 1
    return ranks[chosen], [
        say_plural(
            "only rank {rank} is used (see --rank); {count} other wrote this metric too",
            "only rank {rank} is used (see --rank); {count} others wrote this metric too",
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
        return in_order, KeyKind.ORDER, []
    if max(with_step, with_epoch) < count:
        message = say_plural(
            "only {some} of {count} value has a step, so all are compared in their order",
            "only {some} of {count} values have a step, so all are compared in their order",
            some=max(with_step, with_epoch),
            count=count,
        )
        return in_order, KeyKind.ORDER, [message]
    whole_epochs = with_epoch == count and all(epoch == int(epoch) for epoch in points.epochs if math.isfinite(epoch))
    if with_step < count:
        return _by_epoch(points), KeyKind.EPOCH, []
    rising = all(a <= b for a, b in zip(points.steps, points.steps[1:], strict=False))
    if rising or (not whole_epochs and not _begins_anew(points, habits)):
        return [(0.0, step) for step in points.steps], KeyKind.STEP, []
    if whole_epochs:
        return list(zip(points.epochs, points.steps, strict=True)), KeyKind.BOTH, []
    keys, passes = _counted_epochs(points, habits)
    return (
        keys,
        KeyKind.BOTH,
        [
            say_plural(
                "the step starts again {count} time; each start counts as an epoch (see --restarts)",
                "the step starts again {count} times; each start counts as an epoch (see --restarts)",
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
                "the step goes back {count} time; later values replace {replaced} earlier ones (see --restarts)",
                "the step goes back {count} times; later values replace {replaced} earlier ones (see --restarts)",
                count=restarts,
                replaced=replaced,
            )
        )
    if repeated:
        notes.append(
            say_plural(
                "{count} value repeats a step; {which} is used (see --repeated)",
                "{count} values repeat a step; {which} is used (see --repeated)",
                count=repeated,
                which=_WHICH[habits.repeated],
            )
        )
    pick = {"last": lambda many: many[-1], "first": lambda many: many[0], "mean": fmean}[habits.repeated]
    chosen = tuple(float(many[0] if len(many) == 1 else pick(many)) for many in values)
    return Curve(points.metric, form, tuple(kept), chosen, tuple(notes))


# translators: which of several values at one step counts
# translators: which of several values at one step counts
# translators: which value counts where a step has several
_WHICH = {"last": say("the last"), "first": say("the first"), "mean": say("their mean")}
"""Words for `REPEATED`."""


# Curves put side by side: at the steps that all of them have, or in their order.

ALIGNMENTS = ("auto", "step", "order")


@dataclass(frozen=True)
class Pairing:
    """The curves of both sides at common steps.

    Attributes:
        form: What the keys are, one of `KeyKind`.
        keys: Common steps, rising.
        references: For each run of the reference, its values at `keys`.
        targets: The same of the target.
        left_out: How many values of the first reference and of the first target have no counterpart.
        places: For each common step, the how many-th value of the first reference it is.
        length: Values of the first reference.
        notes: What the reader of a report must know of it.
    """

    form: str
    keys: tuple[Key, ...]
    references: tuple[tuple[float, ...], ...]
    targets: tuple[tuple[float, ...], ...]
    left_out: tuple[int, int]
    places: tuple[int, ...]
    length: int
    notes: tuple[Message, ...] = ()

    @property
    def reference(self) -> tuple[float, ...]:
        """Return the mean of the reference's runs, step by step."""
        return _mean(self.references)

    @property
    def target(self) -> tuple[float, ...]:
        """Return the mean of the target's runs, step by step."""
        return _mean(self.targets)


def uncovered(places: Sequence[int], length: int, begin: int = 0) -> int:
    """Return how many values of the reference from `begin` on lie where the other has none: behind its end, in a hole.

    A curve that was written at wider intervals covers what lies within an interval, as wide as those next to it.

    Args:
        places: Which values of the reference have a counterpart; rising.
        length: How many values the reference has.
        begin: The first that counts.
    """
    gaps = [after - before for before, after in pairwise(places)]
    missing = length - 1 - places[-1]
    uncovered_steps = missing if missing >= max(gaps[-_NEAR:], default=1) else 0
    before = places[0] - begin
    if before >= max(gaps[:_NEAR], default=1):
        uncovered_steps += before
    for place, gap in enumerate(gaps):
        beside = max((*gaps[max(0, place - _NEAR) : place], *gaps[place + 1 : place + 1 + _NEAR]), default=1)
        if gap > 2 * beside and places[place + 1] > begin:
            uncovered_steps += gap - beside
    return uncovered_steps


_NEAR = 3
"""Intervals on either side that say how wide an interval is."""


def pair(references: Sequence[Curve], targets: Sequence[Curve], alignment: str) -> Pairing:
    """Put curves side by side; `alignment` is one of `ALIGNMENTS`.

    Raises:
        UsageError: there is no common step, or steps are asked for and a log has none.
    """
    curves = (*references, *targets)
    forms = {curve.form for curve in curves}
    same = len(forms) == 1 and KeyKind.ORDER not in forms
    if alignment == "step" and not same:
        raise UsageError(
            say("--align step cannot be used: the logs count by {forms}", forms=", ".join(sorted(forms))),
            say("give the step with --pattern '...(?P<step>\\d+)...', or compare in order with --align order"),
        )
    if alignment == "order" or not same:
        return _by_order(references, targets, [] if alignment == "order" or forms == {KeyKind.ORDER} else _why(forms))
    tables = [dict(zip(curve.keys, curve.values, strict=True)) for curve in curves]
    keys = tuple(key for key in curves[0].keys if all(key in table for table in tables[1:]))
    if not keys:
        ranges = "; ".join(f"{shown(c.keys[0], c.form)} .. {shown(c.keys[-1], c.form)}" for c in curves)
        raise UsageError(
            say("the curves have no step in common: {ranges}", ranges=ranges),
            say("compare in order with --align order if the first values belong together"),
        )
    columns = [tuple(table[key] for key in keys) for table in tables]
    left = (len(references[0].keys) - len(keys), len(targets[0].keys) - len(keys))
    numbers = {key: place for place, key in enumerate(curves[0].keys)}
    return Pairing(
        curves[0].form,
        keys,
        tuple(columns[: len(references)]),
        tuple(columns[len(references) :]),
        left,
        tuple(numbers[key] for key in keys),
        len(curves[0].keys),
    )


def _by_order(references: Sequence[Curve], targets: Sequence[Curve], notes: list[Message]) -> Pairing:
    count = min(len(curve.values) for curve in (*references, *targets))
    keys = tuple((0.0, float(index)) for index in range(count))
    left = (len(references[0].values) - count, len(targets[0].values) - count)
    return Pairing(
        KeyKind.ORDER,
        keys,
        tuple(curve.values[:count] for curve in references),
        tuple(curve.values[:count] for curve in targets),
        left,
        tuple(range(count)),
        len(references[0].values),
        tuple(notes),
    )


def _why(forms: set[str]) -> list[Message]:
    return [
        say(
            "the logs count differently ({forms}), so values are compared in their order",
            forms=", ".join(sorted(forms)),
        )
    ]


def _mean(runs: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    if len(runs) == 1:
        return runs[0]
    # math.fsum refuses infinities of both signs, and such a mean is not a number
    return tuple(
        math.fsum(values) / len(values) if all(map(math.isfinite, values)) else sum(values) / len(values)
        for values in zip(*runs, strict=True)
    )
