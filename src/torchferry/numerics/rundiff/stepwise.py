"""One step of two runs: which rows belong together, how far they are apart, and where the error came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchferry.numerics.rundiff.alignment import Alignment, align, group
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.container import Array
from torchferry.numerics.runlog.record import Record, RecordedRows

ALLOWED = {
    "float64": 2.0**-13,
    "float32": 2.0**-13,
    "complex64": 2.0**-13,
    "complex128": 2.0**-13,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e5m2fnuz": 2.0**-2,
}
"""Relative error of one operator between two devices, by dtype: CANN's mean relative error for a single benchmark
(cann-bench, precision_comparison_design.md). Sketches are float32, so that float64 is judged as float32 is."""

HALF = 2.0**-11
"""Relative rounding of TF32 and HF32 inputs."""

_EXACT = 2.0**-23
"""What float32 sums of equal numbers in another order may differ by, per unit of the root of their count."""


@dataclass(frozen=True)
class Errors:
    """The errors of aligned rows.

    Attributes:
        pairs: The rows.
        relative: Distance over size; of integers the root of the share of those that differ; inf where one has NaN or
            infinity and the other has none, or another; nan where the two cannot be compared, as their sizes differ.
        same: Whether the two sketches are the same, bit for bit.
        blind: Whether a sketch shows nothing: NaN and infinity are in all that it adds.
    """

    pairs: Array
    relative: Array
    same: Array
    blind: Array

    def without(self, places: Sequence[int]) -> Errors:
        """Return them without some of the pairs."""
        columns = (self.pairs, self.relative, self.same, self.blind)
        return Errors(*(np.delete(column, places, axis=0) for column in columns))


Weights = dict[tuple[str, tuple[int, ...]], float]
"""Norms of matrices, by the module that holds them and their two sizes, the smaller first."""


def matrices(rows: RecordedRows) -> Weights:
    """Return the parameters of a step that are matrices."""
    by_name: Weights = {}
    for row, key in enumerate(rows.keys):
        if key.phase == names.PARAMETER and len(rows.shapes[row]) == 2:
            by_name[key.module.rpartition(".")[0], tuple(sorted(rows.shapes[row]))] = float(rows.norms[row])
    return by_name


def errors(a: RecordedRows, b: RecordedRows, pairs: list[tuple[int, int]], weights: Weights | None = None) -> Errors:
    """Return the relative error of each pair of rows, by their sketches.

    Args:
        a: The reference.
        b: The other.
        pairs: Which rows belong together.
        weights: The matrices that modules of the reference held when they were last recorded.
    """
    if not pairs:
        return Errors(np.zeros((0, 2), int), np.zeros(0), np.zeros(0, bool), np.zeros(0, bool))
    index = np.asarray(pairs)
    sketch_a, sketch_b = a.sketch[index[:, 0]], b.sketch[index[:, 1]]
    finite_a, finite_b = np.isfinite(sketch_a), np.isfinite(sketch_b)
    both = finite_a & finite_b
    with np.errstate(all="ignore"):
        distance = np.sqrt(np.square(np.where(both, sketch_a - sketch_b, 0.0)).sum(1))
        size = np.maximum(
            np.sqrt(np.square(np.where(both, sketch_a, 0.0)).sum(1)),
            np.sqrt(np.square(np.where(both, sketch_b, 0.0)).sum(1)),
        )
        size = np.maximum(size, np.maximum(a.least[index[:, 0]], b.least[index[:, 1]]))
        size = np.maximum(size, _scales(a, index[:, 0], weights or {}))
        relative = np.where(distance > 0, distance / np.maximum(size, np.finfo(np.float32).tiny), 0.0)
        relative = np.maximum(relative, _leaning(a, b, index, size))
    equal = (sketch_a == sketch_b) | (np.isnan(sketch_a) & np.isnan(sketch_b))
    relative[(~both & ~equal).any(1)] = np.inf
    whole = a.whole[index[:, 0]] & b.whole[index[:, 1]]
    relative[whole] = np.sqrt(differing(a, b, index[whole]) / np.maximum(a.lengths[index[whole, 0]], 1.0))
    lengths_a, lengths_b = a.lengths[index[:, 0]], b.lengths[index[:, 1]]
    relative[lengths_a != lengths_b] = np.nan
    return Errors(index, relative, equal.all(1) & (lengths_a == lengths_b), ~both.any(1))


def differing(a: RecordedRows, b: RecordedRows, index: Array) -> Array:
    """Return how many integers differ in each pair of rows: exact below 61, beyond an estimate, never 0 if any does.

    Args:
        a: The reference.
        b: The other.
        index: The pairs.
    """
    apart = a.sketch[index[:, 0]] - b.sketch[index[:, 1]]
    lengths = a.lengths[index[:, 0]]
    estimate = np.clip(np.square(apart).sum(1) / names.CODE_DISTANCE, 1.0, np.maximum(lengths, 1.0))
    counts: Array = np.where(lengths < names.WIDTH, (apart != 0).sum(1), np.round(estimate))
    return np.where((apart != 0).any(1), counts, 0.0)


def _leaning(a: RecordedRows, b: RecordedRows, index: Array, size: Array) -> Array:
    """Return the error that the sums show: one that has one sign everywhere, which a sketch hardly sees.

    A sum of `n` numbers is itself rounded, by about the root of `n`; only what is far beyond that counts, and it is
    brought to the measure of a distance: an error of `e` everywhere is a distance of `e` times the root of `n`.
    """
    whole = np.maximum(a.lengths[index[:, 0]], 1.0)
    lengths = np.minimum(a.lengths[index[:, 0]], names.SAMPLE)
    part = size * np.sqrt(np.maximum(lengths, 1) / whole)
    apart = np.abs(a.sums[index[:, 0]] - b.sums[index[:, 1]]) / np.maximum(part, np.finfo(np.float32).tiny)
    apart = np.where(np.isfinite(apart), apart, 0.0)
    roots = np.sqrt(np.maximum(lengths, 1))
    leaning: Array = np.where((lengths >= names.WIDTH) & (apart > 64 * _EXACT * roots), apart / roots, 0.0)
    return leaning


def _scales(rows: RecordedRows, index: Array, weights: Weights) -> Array:
    """Return the size that a row's error is to be measured by where its result cancels: that of its inputs.

    The gradient of a bias that has no effect is a sum whose terms cancel: nothing but rounding is left of it, and its
    relative error says nothing.
    """
    scales = np.zeros(len(index))
    for place, row in enumerate(index.tolist()):
        base, used = rows.keys[row].base, rows.inputs[row]
        if not used:
            continue
        norms = [float(rows.norms[row]) for row in used]
        if base in ("sum", "add", "sub", "rsub"):
            scales[place] = max(norms)
        elif base in ("mm", "bmm", "addmm", "baddbmm") and len(used) >= 2:
            lengths = [float(rows.lengths[row]) for row in used]
            inner = np.sqrt(max(1.0, lengths[-1] * lengths[-2] / max(1.0, float(rows.lengths[row]))))
            scales[place] = norms[-1] * norms[-2] / np.sqrt(inner)
        elif base in ("mm", "addmm") and rows.shapes[used[0]] and rows.shapes[row]:
            sides = rows.shapes[used[0]][-1], rows.shapes[row][-1]
            weight = weights.get((rows.keys[row].module, tuple(sorted(sides))), 0.0)
            scales[place] = norms[0] * weight / np.sqrt(max(1, sides[0]))
    return np.where(np.isfinite(scales), scales, 0.0)


def allowed(rows: RecordedRows, pairs: list[tuple[int, int]], coarsest: float = 0.0) -> Array:
    """Return what each pair may differ by: by the coarsest dtype of its step so far, through which its numbers came.

    Args:
        rows: The reference's.
        pairs: The aligned rows; integers are to be the same.
        coarsest: The largest limit of earlier steps.
    """
    limits = np.zeros(len(pairs))
    for place, (row, _) in enumerate(pairs):
        key = rows.keys[row]
        own = ALLOWED.get(key.dtype, ALLOWED["float32"])
        if not key.dtype.startswith(names.FLOATING):
            continue
        if key.phase not in names.HELD:
            coarsest = max(coarsest, own)
        limits[place] = max(own, coarsest)
    return limits


# What is noise: the limits of the dtypes, or how far two records of the reference are from each other.

_TIMES = 8.0
"""How many times the reference's own distance a row may be off (TTrace, arXiv 2506.09280, perturbs for it)."""

_ROUNDING = 2.0**-20
"""The least that a row of float32 may be off: a sketch is itself rounded. What went through a coarser dtype may be off
by that dtype's limit at least, as its cast may swallow what the second record was perturbed by."""


class ErrorEnvelope:
    """Limits of rows, by the dtype or by a second record of the reference."""

    def __init__(self, second: Record | None) -> None:
        ranks = [] if second is None else second.ranks
        self._second = {rank.number: {step.number: step for step in rank.steps} for rank in ranks}

    def limits(self, rank: int, step: int, rows: RecordedRows, aligned: Alignment, by_dtype: Array) -> Array:
        """Return what each pair of a step may be off."""
        other = self._second.get(rank, {}).get(step)
        again = other.rows() if other else None
        if again is None:
            return by_dtype
        own = align(rows, again, {})
        noise = errors(rows, again, own.pairs)
        if not np.nan_to_num(noise.relative).any():
            return by_dtype  # it repeats itself bit for bit, which says nothing of another device
        marks = rows.marks
        spread = {
            marks[row]: error
            for (row, _), error in zip(own.pairs, noise.relative.tolist(), strict=True)
            if np.isfinite(error)
        }
        limits = by_dtype.copy()
        highest = 0.0
        for place, (row, _) in enumerate(aligned.pairs):
            highest = max(highest, spread.get(marks[row], 0.0))
            if not by_dtype[place]:
                continue
            least = by_dtype[place] if by_dtype[place] > ALLOWED["float32"] else _ROUNDING
            limits[place] = max(_TIMES * spread.get(marks[row], highest), least)
        found_limits: Array = limits
        return found_limits


# Results that have a partner by name and are another number: parts of a module that the runs compute differently.
#
# One run computes a layer by `addmm`, the other by two products and a sum: a product of the second has the `addmm` as
# its partner by name, and half of its value. What the layer gives is the same, and only that can be compared.

_FAR = 256
"""Results that were made of one and are gone through: its module has fewer before it gives something."""

_BETTER = 4.0
"""A result whose error is this much smaller did not get it from the row: a half of a sum is off by about its size."""


def parts(
    a: RecordedRows,
    b: RecordedRows,
    aligned: Alignment,
    distances: Errors,
    limits: Array,
    rename: dict[str, str],
    reported: set[tuple[object, ...]],
) -> list[int]:
    """Return the places of pairs that are off without consequence, in modules whose operators differ.

    A pair is one where each result that was made of it, in or after its module, is in order before one outside of its
    module is off. An error of an operator reaches those; a part of another sum does not. Of a forward result only what
    forward made of it counts: in backward the errors of everything come together. What is a part in one step is
    one in all that follow, when what the layers give may be too far apart to show it.

    Args:
        a: The reference.
        b: The other.
        aligned: Which rows belong together.
        distances: Their errors.
        limits: What each may differ by.
        rename: Outermost modules of `b` that have another name in `a`.
        reported: Marks of the parts of earlier steps, to which those of this one are added.
    """
    differing = {group(a.keys[row], {}) for row in aligned.only_a} | {
        group(b.keys[row], rename) for row in aligned.only_b
    }
    off = np.flatnonzero(distances.relative > limits)
    if not differing or not len(off):
        return []
    place_of = {row: place for place, (row, _) in enumerate(aligned.pairs)}
    made_of = _made_of(a)
    marks = a.marks
    chosen = []
    for place in reversed(off.tolist()):  # what is made of a part may be one itself, and tells nothing then
        row = aligned.pairs[place][0]
        if group(a.keys[row], {}) not in differing:
            continue
        if marks[row] in reported or _recovers(row, a, made_of, place_of, distances, limits):
            reported.add(marks[row])
            chosen.append(place)
            del place_of[row]
    return chosen[::-1]


def _recovers(
    row: int,
    a: RecordedRows,
    made_of: dict[int, list[int]],
    place_of: dict[int, int],
    distances: Errors,
    limits: Array,
) -> bool:
    """Whether all that was made of a row is in order, at the latest when it leaves the module.

    Or so much better than the row that the row did not make it so: then the result itself is what is to be judged.
    """
    own = group(a.keys[row], {})
    enough = distances.relative[place_of[row]] / _BETTER
    waiting, in_order = list(made_of.get(row, ())), False
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        if len(seen) > _FAR:
            return False
        seen.add(current)
        if a.keys[current].phase == "backward" and a.keys[row].phase != "backward":
            continue
        place = place_of.get(current)
        if place is not None and not np.isnan(distances.relative[place]):
            if distances.relative[place] <= max(limits[place], enough):
                in_order = True
                continue
            if group(a.keys[current], {}) != own:
                return False
        waiting += made_of.get(current, ())
    return in_order


def _made_of(rows: RecordedRows) -> dict[int, list[int]]:
    by_maker: dict[int, list[int]] = {}
    for row, used in enumerate(rows.inputs):
        for user in used:
            by_maker.setdefault(user, []).append(row)
    return by_maker
