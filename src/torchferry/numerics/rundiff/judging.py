"""What each row of a step is off and may be off, and which row brought an error in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from torchferry.numerics.framework.kinds import COPIES, moves
from torchferry.numerics.rundiff.alignment import Alignment
from torchferry.numerics.rundiff.stepwise import Errors
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.container import Array
from torchferry.numerics.runlog.record import RecordedRows

JUMP = 8.0
"""An error that is this much larger than those that came in was made here."""

AMPLIFIED = 64.0
"""The same where what came in is beyond its limit already: sums whose terms cancel make such errors larger."""

GRADUAL = 16.0
"""How many times what one operator may be off an error may grow to through many, each of which was in order; through
more than these, to the sum of what they may be off."""

_GATES = frozenset(
    {
        "threshold_backward",
        "leaky_relu_backward",
        "hardtanh_backward",
        "hardsigmoid_backward",
        "max_pool2d_with_indices_backward",
        "max_pool3d_with_indices_backward",
        "sgn",
        "sign",
    }
)
"""Operators that pass a number on or not: of inputs that are off by `e`, about that part falls on the other side, and
its root is what the result is off by."""

_CHOOSING = frozenset({"abs", "amax", "amin", "clamp", "clamp_max", "clamp_min", "max", "maximum", "min", "minimum"})
"""Operators whose backward is such a gate, made of others."""

_FLIPPED = 4.0
"""How many times that root: the two largest of the 25 numbers in a pooling window are closer than two of two."""

_SAME = 2.0**-20
"""What two sketches of the same numbers may differ by, as two devices add in another order."""

_MOVED = 2.0**-17
"""The same of a result that is a part of what was given, and whose norm is less."""

_CHANCE = 64.0
"""How many times the share of integers by which their inputs are off may fall on the other side of a whole number."""

_FEW = 3.0
"""Integers more than that: of few, which ones it is by chance."""

_SIGNS = 2.0
"""How many times what the signs of its gradient are off an update may be: optimizers such as Adam go by them."""

_UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}
"""Rounding of a parameter's dtype: that of float32 where it is not here."""


class JudgedRow(NamedTuple):
    """A row of the table from which a verdict is derived.

    Attributes:
        pair: Its place among the aligned pairs.
        error: How far it is off.
        limit: How far it may be: by its dtype, or by what came in where that is more.
        came_in: The largest error of what it used.
        unknown: The rows of the reference, among those that it used or that they did, that have no partner: what error
            they brought is not known.
        gradual: Whether the error grew up to here, and was not made here.
        tie: Whether these are indices, and those that differ are of equal elements.
    """

    pair: int
    error: float
    limit: float
    came_in: float
    unknown: tuple[int, ...]
    gradual: bool = False
    tie: bool = False

    @property
    def beyond(self) -> bool:
        """Whether the row is off by more than it may be."""
        return not self.error <= self.limit


@dataclass
class Past:
    """What earlier steps showed: from step to step errors grow, in runs that are in order.

    Attributes:
        rows: The largest error of each row so far.
        updates: What the last update of each parameter was off, as a part of the parameter.
        modules: The error of the parameters of each module, all in one, when they were last recorded,
        of_step: and when that was.
        step: The step that was compared before.
        coarsest: The largest limit so far: what went through float16 is no better afterwards.
        largest: The largest error of any row of the step before that was in order.
    """

    rows: dict[tuple[object, ...], float] = field(default_factory=dict)
    updates: dict[str, float] = field(default_factory=dict)
    modules: dict[str, float] = field(default_factory=dict)
    of_step: int = 0
    step: int = 0
    coarsest: float = 0.0
    largest: float = 0.0

    def add(
        self,
        step: int,
        sides: tuple[RecordedRows, RecordedRows],
        aligned: Alignment,
        distances: Errors,
        limits: Array,
        judged: list[JudgedRow],
    ) -> None:
        """Take in a step that was compared."""
        a = sides[0]
        marks = a.marks
        held: dict[str, list[tuple[float, float]]] = {}
        for pair, error in zip(aligned.pairs, distances.relative.tolist(), strict=True):
            if not np.isfinite(error):
                continue
            row = pair[0]
            key = a.keys[row]
            self.rows[marks[row]] = max(self.rows.get(marks[row], 0.0), error)
            if key.phase == names.PARAMETER:
                held.setdefault(key.module.rpartition(".")[0], []).append((error, float(a.norms[row])))
            elif key.phase == names.UPDATE:
                self.updates[key.module] = error / max(_parameter_size(sides, pair), 1e-30)
        if held:
            self.modules, self.of_step = {module: _together(parts) for module, parts in held.items()}, step
        self.coarsest = max(self.coarsest, float(limits.max(initial=0.0)))
        self.largest = max((row.error for row in judged if not row.beyond and np.isfinite(row.error)), default=0.0)
        self.step = step


def _together(parts: list[tuple[float, float]]) -> float:
    """Return the error of several tensors, each with its own and its norm, as that of one.

    A bias that has no effect, as that of keys has none in attention, is rounding alone and soon another in each run; it
    excuses nothing in a module whose weights are the same.
    """
    size = math.hypot(*(norm for _, norm in parts))
    return math.hypot(*(error * norm for error, norm in parts)) / size if size else 0.0


def _parameter_size(sides: tuple[RecordedRows, RecordedRows], pair: tuple[int, int]) -> float:
    """Return the norm of a parameter in units of its update; infinite where neither run has one."""
    a = sides[0]
    before = next((used for used in a.inputs[pair[0]] if a.keys[used].phase == names.PARAMETER), None)
    norm = max(float(side.norms[row]) for side, row in zip(sides, pair, strict=True))
    return float(a.norms[before]) / norm if before is not None and norm > 0 else math.inf


def judge(
    step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment, distances: Errors, limits: Array, past: Past
) -> list[JudgedRow]:
    """Return what each row is off and may be off, in the order of the run; rows that cannot be compared are left out.

    An error that came in is no error of the row, so that it may be as large as operators make such errors; what a step
    before was off may grow. In this way the first row that is beyond its limit is the one that made the error.

    Args:
        step: Its number.
        a: The rows of the reference,
        b: and of the other.
        aligned: Which belong together.
        distances: Their errors.
        limits: What each may differ by on its own.
        past: What earlier steps showed.
    """
    effective, unknown = _effective(a, aligned, distances)
    marks = a.marks
    summed = [] if past.rows else _summed(a, aligned, limits, effective)
    growth = JUMP * max(1, step - past.step)
    since = max(1, step - past.of_step)
    judged: list[JudgedRow] = []
    highest = 0.0
    for place, (row, _) in enumerate(aligned.pairs):
        error = float(distances.relative[place])
        if np.isnan(error):
            continue
        key, used = a.keys[row], a.inputs[row]
        if key.phase == names.SIGNS:
            continue
        own = float(limits[place])
        if key.phase in names.HELD:
            came_in, limit = _of_held((a, b), aligned.pairs[place], own, effective, past, growth, highest)
            gradual = False
        else:
            came_in = max((effective[other] for other in used), default=0.0) if used else highest
            if past.rows and marks[row] not in past.rows:
                came_in = max(came_in, past.modules.get(key.module, 0.0) * since)
            highest = max(highest, error)
            before = growth * past.rows.get(marks[row], 0.0)
            if a.whole[row]:
                limit, gradual = max(_of_whole(a, row, came_in), before), False
            else:
                if _exact(a, row, came_in):
                    own = min(own, _MOVED)
                limit, gradual = _of_result(a, row, own, came_in, before, error, None if past.rows else summed[row])
        tie = a.whole[row] and _is_tie(a, aligned, distances, limits, place)
        judged.append(JudgedRow(place, error, 1.0 if tie else limit, came_in, unknown[row], gradual, bool(tie)))
    return judged


def _of_result(
    a: RecordedRows, row: int, own: float, came_in: float, before: float, error: float, summed: float | None
) -> tuple[float, bool]:
    """Return what an operator's result may be off, and whether an error beyond it grew through many operators."""
    limit = max(own, before)
    explained = max((JUMP if came_in <= own else AMPLIFIED) * came_in, _flipped(a, row, came_in))
    if summed is None:
        return max(limit, explained), False
    most = max(GRADUAL * own, summed, before)
    return max(limit, min(explained, most)), error <= explained


def _of_whole(a: RecordedRows, row: int, came_in: float) -> float:
    """Return what integers may be off: nothing, unless their inputs are."""
    if came_in <= 0.0:
        return 0.0
    length = max(1.0, float(a.lengths[row]))
    by_chance = _CHANCE * max(came_in, _SAME) * length
    chance = math.sqrt(min(1.0, (_FEW + by_chance) / length)) if by_chance >= 0.01 else 0.0
    return max(chance, JUMP * came_in if any(a.whole[other] for other in a.inputs[row]) else 0.0)


def _is_tie(a: RecordedRows, aligned: Alignment, distances: Errors, limits: Array, place: int) -> bool:
    """Whether integers are indices, and the elements that both runs chose by them are equal within their limit."""
    scores = place + 1
    return (
        scores < len(aligned.pairs)
        and a.keys[aligned.pairs[scores][0]].result == names.SCORES
        and distances.relative[place] > 0
        and bool(distances.relative[scores] <= limits[scores])
    )


def _of_held(
    sides: tuple[RecordedRows, RecordedRows],
    pair: tuple[int, int],
    own: float,
    effective: list[float],
    past: Past,
    growth: float,
    highest: float,
) -> tuple[float, float]:
    """Return what came into a parameter, a buffer, an optimizer's state or an update, and what it may be off."""
    a, row = sides[0], pair[0]
    key, used = a.keys[row], a.inputs[row]
    grown = growth * past.rows.get(a.marks[row], 0.0)
    if key.phase in (names.PARAMETER, names.BUFFER):
        came_in = past.rows.get(a.marks[row], 0.0)
        if not past.rows:
            return 0.0, own
        came_in += past.updates.get(key.module, past.largest)
        return came_in, max(own, growth * came_in)
    given = [effective[other] for other in used if a.keys[other].phase not in (names.PARAMETER, names.SIGNS)]
    came_in = max(given, default=highest)
    if key.phase == names.STATE:
        return came_in, max(own, JUMP * came_in, grown)
    signs = max(
        (
            max(effective[other], past.rows.get(a.marks[other], 0.0))
            for other in used
            if a.keys[other].phase == names.SIGNS
        ),
        default=2.0 * math.sqrt(came_in),
    )
    size = _parameter_size(sides, pair)
    rounding = math.sqrt(max(came_in, _SAME) * 2 * _UNIT.get(key.dtype, 2.0**-24) * size) + _SAME * size
    return came_in, max(own, _SIGNS * signs, GRADUAL * came_in, rounding, grown)


def suspect(judged: list[JudgedRow]) -> JudgedRow | None:
    """Return the first row that brought an error in; if there is none, the first beyond which errors grew too far."""
    beyond = [row for row in judged if row.beyond]
    return next((row for row in beyond if not row.gradual), beyond[0] if beyond else None)


def _exact(a: RecordedRows, row: int, came_in: float) -> bool:
    """Whether a row must be what it was given: it only moves it, and all that it was given is known and the same."""
    key = a.keys[row]
    return bool(a.inputs[row]) and came_in <= _SAME and moves(key.operator) and key.base not in COPIES


def _flipped(a: RecordedRows, row: int, came_in: float) -> float:
    """Return what a row may be off because numbers fell on the other side of a gate."""
    key = a.keys[row]
    if key.base in _GATES or key.source_base in _CHOOSING or (moves(key.operator) and key.base not in COPIES):
        return _FLIPPED * math.sqrt(came_in)  # what is moved is chosen by a mask or an index, which may be computed
    return 0.0


def _summed(a: RecordedRows, aligned: Alignment, limits: Array, effective: list[float]) -> list[float]:
    """Return for each row of the reference what all operators up to it may be off together."""
    own = {row: float(limits[place]) for place, (row, _) in enumerate(aligned.pairs)}
    summed: list[float] = []
    highest = 0.0
    for row, used in enumerate(a.inputs):
        if a.keys[row].phase in names.HELD:
            summed.append(0.0)
            continue
        before = max((summed[row] for row in used), default=0.0) if used else highest
        came_in = max((effective[row] for row in used), default=0.0)
        more = 0.0 if moves(a.keys[row].operator) and a.keys[row].base not in COPIES else own.get(row, 0.0)
        summed.append(max(before + more, _flipped(a, row, came_in)))
        highest = max(highest, summed[-1])
    return summed


def _effective(a: RecordedRows, aligned: Alignment, distances: Errors) -> tuple[list[float], list[tuple[int, ...]]]:
    """Return the error of each row of the reference, and which of those that it came from have no partner.

    One without a partner has at least the error of what it used; what it added to that is not known.
    """
    by_row = {row: place for place, (row, _) in enumerate(aligned.pairs)}
    effective: list[float] = []
    without: list[tuple[int, ...]] = []
    unknown: list[tuple[int, ...]] = []
    for row, used in enumerate(a.inputs):
        unknown.append(tuple(dict.fromkeys(other for maker in used for other in without[maker]))[:_NAMED])
        place = by_row.get(row)
        error = math.nan if place is None else float(distances.relative[place])
        measured = place is not None and not np.isnan(error) and not distances.blind[place]
        inherited = max((effective[other] for other in used), default=0.0)
        effective.append(error if measured else inherited if np.isnan(error) else max(error, inherited))
        without.append(() if measured else (*unknown[row], row)[-_NAMED:])
    return effective, unknown


_NAMED = 4
"""Rows without a partner that one is said to come from; more are not told apart."""
