"""How far two results of an operator are from each other, and how far they may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchferry.numerics.rundiff.alignment import Alignment, align
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
        relative: Distance over size; inf where one has NaN or infinity and the other has none; nan where the two cannot
            be compared, as their sizes differ.
        same: Whether the two sketches are the same, bit for bit.
    """

    pairs: Array
    relative: Array
    same: Array

    def without(self, places: Sequence[int]) -> Errors:
        """Return them without some of the pairs."""
        return Errors(*(np.delete(column, places, axis=0) for column in (self.pairs, self.relative, self.same)))


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
        return Errors(np.zeros((0, 2), int), np.zeros(0), np.zeros(0, bool))
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
    relative[(finite_a != finite_b).any(1)] = np.inf
    lengths_a, lengths_b = a.lengths[index[:, 0]], b.lengths[index[:, 1]]
    relative[lengths_a != lengths_b] = np.nan
    same = ((sketch_a == sketch_b) | (np.isnan(sketch_a) & np.isnan(sketch_b))).all(1) & (lengths_a == lengths_b)
    return Errors(index, relative, same)


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
        pairs: The aligned rows.
        coarsest: The largest limit of earlier steps.
    """
    limits = np.zeros(len(pairs))
    for place, (row, _) in enumerate(pairs):
        key = rows.keys[row]
        own = ALLOWED.get(key.dtype, ALLOWED["float32"])
        if key.phase not in (names.PARAMETER, names.BUFFER):
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
            least = by_dtype[place] if by_dtype[place] > ALLOWED["float32"] else _ROUNDING
            limits[place] = max(_TIMES * spread.get(marks[row], highest), least)
        found_limits: Array = limits
        return found_limits
