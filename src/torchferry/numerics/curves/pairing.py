"""Curves put side by side: at the steps that all of them have, or in their order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.numerics.curves.curve import Curve, Form, Key, shown

ALIGNMENTS = ("auto", "step", "order")


@dataclass(frozen=True)
class Pairing:
    """The curves of both sides at common steps.

    Attributes:
        form: What the keys are, one of `Form`.
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
    found = missing if missing >= max(gaps[-_NEAR:], default=1) else 0
    before = places[0] - begin
    if before >= max(gaps[:_NEAR], default=1):
        found += before
    for place, gap in enumerate(gaps):
        beside = max((*gaps[max(0, place - _NEAR) : place], *gaps[place + 1 : place + 1 + _NEAR]), default=1)
        if gap > 2 * beside and places[place + 1] > begin:
            found += gap - beside
    return found


_NEAR = 3
"""Intervals on either side that say how wide an interval is."""


def pair(references: Sequence[Curve], targets: Sequence[Curve], alignment: str) -> Pairing:
    """Put curves side by side; `alignment` is one of `ALIGNMENTS`.

    Raises:
        UsageError: there is no common step, or steps are asked for and a log has none.
    """
    curves = (*references, *targets)
    forms = {curve.form for curve in curves}
    same = len(forms) == 1 and Form.ORDER not in forms
    if alignment == "step" and not same:
        raise UsageError(
            say("the curves have no steps in common form: {forms}", forms=", ".join(sorted(forms))),
            say("give the step with --pattern '...(?P<step>\\d+)...', or compare in order with --align order"),
        )
    if alignment == "order" or not same:
        return _by_order(references, targets, [] if alignment == "order" or forms == {Form.ORDER} else _why(forms))
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
        Form.ORDER,
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
