"""Results that have a partner by name and are another number: parts of a module that the runs compute differently.

One run computes a layer by `addmm`, the other by two products and a sum: a product of the second has the `addmm` as its
partner by name, and half of its value. What the layer gives is the same, and only that can be compared.
"""

from __future__ import annotations

import numpy as np

from torchferry.numerics.rundiff.alignment import Alignment, group
from torchferry.numerics.rundiff.errors import Errors
from torchferry.numerics.runlog.container import Array
from torchferry.numerics.runlog.record import Rows

_FAR = 256
"""Results that were made of one and are gone through: its module has fewer before it gives something."""

_BETTER = 4.0
"""A result whose error is this much smaller did not get it from the row: a half of a sum is off by about its size."""


def parts(
    a: Rows,
    b: Rows,
    aligned: Alignment,
    found: Errors,
    limits: Array,
    rename: dict[str, str],
    known: set[tuple[object, ...]],
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
        found: Their errors.
        limits: What each may differ by.
        rename: Outermost modules of `b` that have another name in `a`.
        known: Marks of the parts of earlier steps, to which those of this one are added.
    """
    differing = {group(a.keys[row], {}) for row in aligned.only_a} | {
        group(b.keys[row], rename) for row in aligned.only_b
    }
    off = np.flatnonzero(found.relative > limits)
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
        if marks[row] in known or _recovers(row, a, made_of, place_of, found, limits):
            known.add(marks[row])
            chosen.append(place)
            del place_of[row]
    return chosen[::-1]


def _recovers(
    row: int,
    a: Rows,
    made_of: dict[int, list[int]],
    place_of: dict[int, int],
    found: Errors,
    limits: Array,
) -> bool:
    """Whether all that was made of a row is in order, at the latest when it leaves the module.

    Or so much better than the row that the row did not make it so: then the result itself is what is to be judged.
    """
    own = group(a.keys[row], {})
    enough = found.relative[place_of[row]] / _BETTER
    waiting, in_order = list(made_of.get(row, ())), False
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        if len(seen) > _FAR:
            return False
        seen.add(one)
        if a.keys[one].phase == "backward" and a.keys[row].phase != "backward":
            continue
        place = place_of.get(one)
        if place is not None and not np.isnan(found.relative[place]):
            if found.relative[place] <= max(limits[place], enough):
                in_order = True
                continue
            if group(a.keys[one], {}) != own:
                return False
        waiting += made_of.get(one, ())
    return in_order


def _made_of(rows: Rows) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row, used in enumerate(rows.inputs):
        for one in used:
            found.setdefault(one, []).append(row)
    return found
