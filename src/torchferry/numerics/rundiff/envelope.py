"""What is noise: the limits of the dtypes, or how far two records of the reference are from each other."""

from __future__ import annotations

import numpy as np

from torchferry.numerics.rundiff.alignment import Alignment, align
from torchferry.numerics.rundiff.errors import ALLOWED, errors
from torchferry.numerics.runlog.container import Array
from torchferry.numerics.runlog.record import Record, Rows

_TIMES = 8.0
"""How many times the reference's own distance a row may be off (TTrace, arXiv 2506.09280, perturbs for it)."""

_ROUNDING = 2.0**-20
"""The least that a row of float32 may be off: a sketch is itself rounded. What went through a coarser dtype may be off
by that dtype's limit at least, as its cast may swallow what the second record was perturbed by."""


class Envelope:
    """Limits of rows, by the dtype or by a second record of the reference."""

    def __init__(self, second: Record | None) -> None:
        ranks = [] if second is None else second.ranks
        self._second = {rank.number: {step.number: step for step in rank.steps} for rank in ranks}

    def limits(self, rank: int, step: int, rows: Rows, aligned: Alignment, by_dtype: Array) -> Array:
        """Return what each pair of a step may be off."""
        other = self._second.get(rank, {}).get(step)
        again = other.rows() if other else None
        if again is None:
            return by_dtype
        own = align(rows, again, {})
        found = errors(rows, again, own.pairs)
        if not np.nan_to_num(found.relative).any():
            return by_dtype  # it repeats itself bit for bit, which says nothing of another device
        marks = rows.marks
        spread = {
            marks[row]: error
            for (row, _), error in zip(own.pairs, found.relative.tolist(), strict=True)
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
