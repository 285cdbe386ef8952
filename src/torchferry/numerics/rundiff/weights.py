"""Did the two runs begin with the same weights, and with the same parameters?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchferry.core.messages import say
from torchferry.numerics.rundiff.alignment import renamed
from torchferry.numerics.rundiff.cause import CERTAIN, NOTE, Cause, short
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.container import Array
from torchferry.numerics.runlog.record import Rank, Step

_ROUNDING = 2.0**-20
"""Relative distance up to which weights are taken to be the same and rounded on their way."""

_SHOWN = 4


def first_step(rank: Rank) -> Step | None:
    """Return the step that has the weights which a rank began with."""
    return next((step for step in rank.steps if step.hashes), None)


def causes(a: Rank, b: Rank, rename: dict[str, str]) -> Iterator[Cause]:
    """Yield what differs in parameters, and in buffers."""
    step_a, step_b = first_step(a), first_step(b)
    if step_a is None or step_b is None:
        return
    if step_a.sharded or step_b.sharded:
        if a.world != b.world:
            return
    for phase, one, many in (
        (names.PARAMETER, "initial weights", say("the runs began with other weights")),
        (names.BUFFER, "initial buffers", say("the runs began with other buffers, such as running means")),
    ):
        of_a, of_b = _held(step_a, phase, {}), _held(step_b, phase, rename)
        missing, extra = sorted(of_a.keys() - of_b.keys()), sorted(of_b.keys() - of_a.keys())
        if missing or extra:
            yield Cause(
                "parameters" if phase == names.PARAMETER else "buffers",
                _few([*missing, *extra]),
                _few(missing),
                _few(extra),
                say("the two models are not the same; compare their versions and their settings"),
                CERTAIN if phase == names.PARAMETER else NOTE,
                say("one model has what the other has not"),
            )
        differing = [name for name in of_a if name in of_b and of_a[name][0] != of_b[name][0]]
        if not differing:
            continue
        distance = {name: _distance(of_a[name][1], of_b[name][1]) for name in differing}
        worst = max(differing, key=lambda name: distance[name])
        rounding = distance[worst] <= _ROUNDING
        share = f"{len(differing)} of {len(of_a)}"
        yield Cause(
            one,
            _few(differing),
            share,
            say("relative distance up to {value}, in {name}", value=f"{distance[worst]:.3g}", name=worst).render("en"),
            say("they differ by rounding only, as after a conversion")
            if rounding
            else say("load one checkpoint on both sides: save it on the first and read it on the second"),
            NOTE if rounding else CERTAIN,
            many,
        )


def _held(step: Step, phase: str, rename: dict[str, str]) -> dict[str, tuple[str, Array]]:
    rows = step.rows()
    if rows is None:
        return {}
    return {
        renamed(rows.keys[row].module, rename): (value, rows.sketch[row])
        for row, value in step.hashes.items()
        if 0 <= row < len(rows.keys) and rows.keys[row].phase == phase
    }


def _distance(a: Array, b: Array) -> float:
    size = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)), 1e-30)
    found = float(np.linalg.norm(a - b)) / size
    return found if np.isfinite(found) else float("inf")


def _few(found: list[str]) -> str:
    return short(", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""), 300)
