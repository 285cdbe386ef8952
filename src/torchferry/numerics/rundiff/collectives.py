"""What the ranks of a run made of their gradients together: a mean, a sum, or something that left one out.

A sketch is linear: that of a mean of tensors is the mean of their sketches. The gradients that each rank computed alone
are rows of its record, and so are those that its optimizer got; how the second are made of the first is a small system
of equations for each parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from torchferry.core.messages import Message, say
from torchferry.numerics.rundiff.causes import CERTAIN, Cause, short
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.container import Array
from torchferry.numerics.runlog.record import Record, RecordedRows

_MOST_RANKS = 32
"""Ranks of a run that is looked at: a sketch has 61 numbers, and a share of each rank is wanted."""

_STEPS = 3
"""Steps that are looked at: the first ones, whose gradients are recorded one by one."""

_APART = 0.02
"""How far a gradient may be from its sum of the ranks' own, relative, and a share from another: bfloat16 has 8 bits."""

_FAR = 64
"""Rows that are gone back from a gradient to the one that backward made."""


@dataclass(frozen=True)
class Reduction:
    """How the gradient of a parameter on one rank is made of those of all ranks.

    Attributes:
        shares: What each rank's own gradient is taken times.
        rest: What is not explained by them, relative.
    """

    shares: tuple[float, ...]
    rest: float

    def alike(self, other: Reduction) -> bool:
        """Whether both are made in the same way."""
        if (self.rest > _APART) != (other.rest > _APART):
            return False
        return self.rest > _APART or bool(np.allclose(self.shares, other.shares, rtol=0.0, atol=_APART))

    def text(self, rank: int) -> Message:
        """Say it, for the rank that it is of."""
        count = len(self.shares)
        if self.rest > _APART:
            return say("none of the ranks' gradients of this step, nor a sum of them")
        shares = np.asarray(self.shares)
        least, most = float(shares.min()), float(shares.max())
        if most - least <= _APART * max(abs(most), 1.0 / count):
            if abs(most * count - 1) <= _APART * count:
                return say("the mean over {count} ranks", count=count)
            if abs(most - 1) <= _APART:
                return say("the sum over {count} ranks", count=count)
            return say("{factor} times the sum over {count} ranks", factor=f"{most:.3g}", count=count)
        without = [number for number, share in enumerate(self.shares) if abs(share) <= _APART * abs(most)]
        if len(without) == count - 1 and rank not in without:
            return say("its own gradient alone")
        if without:
            return say("without the ranks {ranks}", ranks=", ".join(map(str, without)))
        return say("shares of the ranks: {shares}", shares=", ".join(f"{share:.3g}" for share in self.shares))


def causes_in_collectives(a: Record, b: Record) -> Iterator[Cause]:
    """Yield the first parameter whose gradient the ranks of the second run put together otherwise."""
    if a.world != b.world or not 1 < a.world <= _MOST_RANKS or not len(a.ranks) == len(b.ranks) == a.world:
        return
    shared = [step.number for step in a.ranks[0].steps[:_STEPS] if step.file]
    for step in shared:
        of_a, of_b = reductions(a, step), reductions(b, step)
        differing = [key for key in of_a if key in of_b and not of_a[key].alike(of_b[key])]
        if not differing:
            continue
        name, rank = differing[0]
        parameters = list(dict.fromkeys(parameter for parameter, _ in differing))
        more = f" and {len(parameters) - 1} more" if len(parameters) > 1 else ""
        yield Cause(
            "collective",
            short(f"step {step}, {name}{more}, rank {rank}"),
            of_a[name, rank].text(rank).render("en"),
            of_b[name, rank].text(rank).render("en"),
            say("each rank's own gradient is right: look at the collective, its operation and the buffers it is given"),
            CERTAIN,
            say("the ranks put their gradients together differently"),
        )
        return


def reductions(record: Record, number: int) -> dict[tuple[str, int], Reduction]:
    """Return how the gradients of a step are made of those of the ranks, by parameter and rank.

    Parameters of which a rank's own gradient is not known, or that have fewer elements than there are ranks, are left
    out: those that are cut up, for instance, and those that backward added to in several parts.
    """
    rows = []
    for rank in record.ranks:
        step = next((step for step in rank.steps if step.number == number), None)
        rows.append(step.rows() if step is not None else None)
    if any(of_rank is None for of_rank in rows):
        return {}
    every = [_gradients(of_rank) for of_rank in rows if of_rank is not None]
    found: dict[tuple[str, int], Reduction] = {}
    for name in every[0]:
        parts = [of_rank[name] for of_rank in every if name in of_rank]
        if len(parts) < len(every):
            continue
        own = np.stack([part for part, _ in parts], axis=1)
        if not np.isfinite(own).all() or np.linalg.matrix_rank(own, tol=1e-3 * float(np.linalg.norm(own))) < len(parts):
            continue  # ranks with the same samples: no share is that of one
        for rank, (_, gradient) in zip(record.ranks, parts, strict=True):
            size = float(np.linalg.norm(gradient))
            if not np.isfinite(size) or size == 0.0:
                continue
            shares = np.linalg.lstsq(own, gradient, rcond=None)[0]
            rest = float(np.linalg.norm(own @ shares - gradient)) / size
            found[name, rank.number] = Reduction(tuple(map(float, shares)), rest)
    return found


def _gradients(rows: RecordedRows) -> dict[str, tuple[Array, Array]]:
    """Return the sketches of each parameter's gradient: as this rank made it, and as its optimizer got it."""
    found: dict[str, tuple[Array, Array]] = {}
    for row, key in enumerate(rows.keys):
        if key.phase != names.GRADIENT:
            continue
        source = _source(rows, row)
        if source is not None:
            found.setdefault(key.module, (rows.sketch[source], rows.sketch[row]))
    return found


def _source(rows: RecordedRows, row: int) -> int | None:
    """Return the row that backward made for a gradient, or None where it was made of several of its shape."""
    for _ in range(_FAR):
        if rows.keys[row].phase == "backward" and rows.keys[row].base != "copy":
            return row
        same = [used for used in rows.inputs[row] if rows.lengths[used] == rows.lengths[row]]
        if len(same) != 1:
            return None
        row = same[0]
    return None
