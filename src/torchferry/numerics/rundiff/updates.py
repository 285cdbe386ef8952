"""Did the optimizers make the same of the same gradients?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from torchferry.core.messages import say
from torchferry.numerics.rundiff.alignment import Alignment
from torchferry.numerics.rundiff.cause import CERTAIN, Cause
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.container import Array
from torchferry.numerics.runlog.record import Rows

_GRADIENTS = 1e-3
"""Relative error up to which gradients count as the same here: Adam's first steps go by signs, of which a share of
about this error differs, and the steps by about twice its root."""

_UPDATES = 0.2
"""Share of the change of a parameter by which the two changes differ, from which on they count as different. Adam makes
steps of full length from gradients that are rounding alone: no single parameter says anything, their median does."""


class State(NamedTuple):
    """Sketches of a step's parameters, in both runs, and the errors of its gradients."""

    step: int
    parameters: dict[str, tuple[Array, Array]]
    gradients: dict[str, float]


def state(a: Rows, b: Rows, aligned: Alignment, step: int) -> State | None:
    """Return parameters and gradients of a step, or None where they were not recorded."""
    parameters: dict[str, tuple[Array, Array]] = {}
    gradients: dict[str, float] = {}
    for i, j in aligned.pairs:
        key = a.keys[i]
        if key.phase == names.PARAMETER:
            parameters[key.module] = (a.sketch[i], b.sketch[j])
        elif key.phase == names.GRADIENT:
            size = max(float(a.norms[i]), 1e-30)
            gradients[key.module] = float(np.linalg.norm(a.sketch[i] - b.sketch[j])) / size
    return State(step, parameters, gradients) if parameters else None


def causes(step: int, a: Rows, b: Rows, aligned: Alignment, before: State | None, told: set[str]) -> Iterator[Cause]:
    """Yield a cause where parameters took other steps although their gradients were the same."""
    if before is None or before.step != step - 1 or "optimizer step" in told or not before.gradients:
        return
    now = state(a, b, aligned, step)
    if now is None:
        return
    apart: dict[str, float] = {}
    for name, (one, two) in now.parameters.items():
        if name not in before.parameters or not before.gradients.get(name, 1.0) <= _GRADIENTS:
            continue
        change_a, change_b = one - before.parameters[name][0], two - before.parameters[name][1]
        size = max(float(np.linalg.norm(change_a)), float(np.linalg.norm(change_b)))
        if size > 1e-6 * float(np.linalg.norm(one)):
            apart[name] = float(np.linalg.norm(change_a - change_b)) / size
    if len(apart) * 2 < len(before.gradients) or np.median(list(apart.values())) <= _UPDATES:
        return
    told.add("optimizer step")
    worst = max(apart, key=lambda name: apart[name])
    yield Cause(
        "optimizer step",
        f"step {before.step}, {worst}" + (f" and {len(apart) - 1} more" if len(apart) > 1 else ""),
        "1",
        say("steps differ by {value} of their length", value=f"{np.median(list(apart.values())):.3g}").render("en"),
        say("gradients were the same: look at the optimizer's settings, its state, and its fused kernel on the device"),
        CERTAIN,
        say("the optimizer made other steps of the same gradients"),
    )
