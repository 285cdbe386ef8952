"""Where whole tensors were kept: what they show of a difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from torchferry.numerics.runlog.record import Step


@dataclass(frozen=True)
class Exact:
    """The difference of two tensors, element by element.

    Attributes:
        largest: The largest absolute difference,
        at: and where it is.
        values: What the two have there.
        relative: Distance over size.
        cosine: Of the angle between them.
        differing: How many elements differ,
        of: of how many.
    """

    largest: float
    at: tuple[int, ...]
    values: tuple[float, float]
    relative: float
    cosine: float
    differing: int
    of: int


def exact(a: Step, b: Step, row_a: int, row_b: int) -> Exact | None:
    """Compare the tensors of two rows, or return None where one was not kept, or has another shape."""
    if not (a.kept_file and b.kept_file):
        return None
    one, two = a.kept(row_a), b.kept(row_b)
    if one is None or two is None or one.shape != two.shape or not one.size:
        return None
    one, two = one.astype(np.float64), two.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(one - two)
        apart = np.where(
            one == two, 0.0, np.where(np.isnan(apart), np.where(np.isnan(one) & np.isnan(two), 0.0, np.inf), apart)
        )
        place = np.unravel_index(int(np.argmax(apart)), one.shape)
        size = float(np.linalg.norm(one)) or 1e-30
        relative = float(np.linalg.norm(apart)) / size
        cosine = float((one * two).sum() / (np.linalg.norm(one) * np.linalg.norm(two)))
    return Exact(
        float(apart[place]),
        tuple(int(i) for i in place),
        (float(one[place]), float(two[place])),
        relative,
        cosine,
        int((apart > 0).sum()),
        one.size,
    )
