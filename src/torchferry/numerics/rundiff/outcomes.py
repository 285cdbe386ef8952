"""Causes of a difference in what a run made: weights, updates of parameters, operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from torchferry.core.messages import say
from torchferry.numerics.framework.kinds import moves
from torchferry.numerics.rundiff.alignment import Alignment, renamed
from torchferry.numerics.rundiff.causes import CERTAIN, NOTE, POSSIBLE, Cause, short
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.container import Array
from torchferry.numerics.runlog.layout import Key
from torchferry.numerics.runlog.record import Rank, RecordedRows, RecordedStep

# Did the two runs begin with the same weights, and with the same parameters?

_ROUNDING = 2.0**-20
"""Relative distance up to which weights are taken to be the same and rounded on their way."""

_SHOWN = 4


def first_step(rank: Rank) -> RecordedStep | None:
    """Return the step that has the weights which a rank began with."""
    return next((step for step in rank.steps if step.hashes), None)


def causes_in_weights(a: Rank, b: Rank, rename: dict[str, str]) -> Iterator[Cause]:
    """Yield what differs in parameters, and in buffers."""
    step_a, step_b = first_step(a), first_step(b)
    if step_a is None or step_b is None:
        return
    if step_a.sharded or step_b.sharded:
        if a.world != b.world:
            return
    for phase, message, many in (
        (names.PARAMETER, "initial weights", say("the runs began with different weights")),
        (names.BUFFER, "initial buffers", say("the runs began with different buffers, such as running means")),
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
                say("one model has parts that the other lacks"),
            )
        differing = [name for name in of_a if name in of_b and of_a[name][0] != of_b[name][0]]
        if not differing:
            continue
        distance = {name: _distance(of_a[name][1], of_b[name][1]) for name in differing}
        worst = max(differing, key=lambda name: distance[name])
        rounding = distance[worst] <= _ROUNDING
        share = f"{len(differing)} of {len(of_a)}"
        yield Cause(
            message,
            _few(differing),
            share,
            say("relative distance up to {value}, in {name}", value=f"{distance[worst]:.3g}", name=worst).render("en"),
            say("they differ by rounding only, as after a conversion")
            if rounding
            else say("load one checkpoint on both sides: save it on the first and read it on the second"),
            NOTE if rounding else CERTAIN,
            many,
        )


def _held(step: RecordedStep, phase: str, rename: dict[str, str]) -> dict[str, tuple[str, Array]]:
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
    distance = float(np.linalg.norm(a - b)) / size
    return distance if np.isfinite(distance) else float("inf")


def _few(names: list[str]) -> str:
    return short(", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""), 300)


# Did the optimizers make the same of the same gradients?

_GRADIENTS = 1e-3
"""Relative error up to which gradients count as the same here: Adam's first steps go by signs, of which a share of
about this error differs, and the steps by about twice its root."""

_UPDATES = 0.2
"""Share of the change of a parameter by which the two changes differ, from which on they count as different. Adam makes
steps of full length from gradients that are rounding alone: no single parameter says anything, their median does."""


class UpdateState(NamedTuple):
    """Sketches of a step's parameters, in both runs, and the errors of its gradients."""

    step: int
    parameters: dict[str, tuple[Array, Array]]
    gradients: dict[str, float]


def state(a: RecordedRows, b: RecordedRows, aligned: Alignment, step: int) -> UpdateState | None:
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
    return UpdateState(step, parameters, gradients) if parameters else None


def causes_in_updates(
    step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment, before: UpdateState | None, reported: set[str]
) -> Iterator[Cause]:
    """Yield a cause where parameters took other steps although their gradients were the same."""
    if before is None or before.step != step - 1 or "optimizer step" in reported or not before.gradients:
        return
    now = state(a, b, aligned, step)
    if now is None:
        return
    apart: dict[str, float] = {}
    for name, (parameter, two) in now.parameters.items():
        if name not in before.parameters or not before.gradients.get(name, 1.0) <= _GRADIENTS:
            continue
        change_a, change_b = parameter - before.parameters[name][0], two - before.parameters[name][1]
        size = max(float(np.linalg.norm(change_a)), float(np.linalg.norm(change_b)))
        if size > 1e-6 * float(np.linalg.norm(parameter)):
            apart[name] = float(np.linalg.norm(change_a - change_b)) / size
    if len(apart) * 2 < len(before.gradients) or np.median(list(apart.values())) <= _UPDATES:
        return
    reported.add("optimizer step")
    worst = max(apart, key=lambda name: apart[name])
    yield Cause(
        "optimizer step",
        f"step {before.step}, {worst}" + (f" and {len(apart) - 1} more" if len(apart) > 1 else ""),
        "1",
        say("updates differ by {value} of their length", value=f"{np.median(list(apart.values())):.3g}").render("en"),
        say("gradients were the same: look at the optimizer's settings, its state, and its fused kernel on the device"),
        CERTAIN,
        say("the optimizer made different updates from the same gradients"),
    )


# Did the two runs compute with the same operators, told the same, in the same dtypes?

_EPSILON = frozenset({"native_layer_norm", "native_group_norm", "native_batch_norm", "_fused_rms_norm", "rms_norm"})
_MODULES = 6


def causes_in_operators(
    step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment, by_name: Alignment, rename: dict[str, str]
) -> Iterator[Cause]:
    """Yield what differs in the operators of one step.

    Args:
        step: Its number.
        a: The reference.
        b: The other.
        aligned: Rows that are the same numbers.
        by_name: Rows that have the same names.
        rename: Outermost modules of `b` that have another name in `a`.
    """
    yield from _told(step, a, b, aligned)
    yield from _dtypes(step, a, b, aligned)
    yield from _sets(step, a, b, by_name, rename)


def _told(step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment) -> Iterator[Cause]:
    seen: dict[str, Cause] = {}
    more: Counter[str] = Counter()
    for i, j in aligned.pairs:
        value_a, value_b = a.arguments[i], b.arguments[j]
        key = a.keys[i]
        if key.phase != "forward" or key.operator != b.keys[j].operator or _equal(value_a, value_b):
            continue
        if _numel(a.shapes[i]) != _numel(b.shapes[j]):
            continue  # sizes among the arguments differ with the batch
        more[key.operator] += 1
        epsilon = key.base in _EPSILON
        seen.setdefault(
            key.operator,
            Cause(
                "norm epsilon" if epsilon else "argument of an operator",
                f"step {step}, {key.module or 'outside of modules'}, {key.operator}",
                short(value_a),
                short(value_b),
                say("give the layer the same `eps` on both sides")
                if epsilon
                else say("the operator is called with different numbers; look at the module's settings"),
                CERTAIN,
                say("a norm has a different epsilon") if epsilon else say("an operator received a different argument"),
            ),
        )
    for name, cause in seen.items():
        count = more[name]
        yield cause if count == 1 else replace(cause, where=f"{cause.where} and {count - 1} more")


def _dtypes(step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment) -> Iterator[Cause]:
    differing = [(i, j) for i, j in aligned.pairs if a.keys[i].dtype != b.keys[j].dtype]
    if not differing:
        return
    i, j = differing[0]
    key = a.keys[i]
    yield Cause(
        "dtype",
        f"step {step}, {key.module or key.phase}, {key.operator or key.phase}"
        + (f" and {len(differing) - 1} more" if len(differing) > 1 else ""),
        key.dtype,
        b.keys[j].dtype,
        say("use the same mixed precision, with the same lists of operators"),
        CERTAIN,
        say("the runs compute in different dtypes"),
    )


def _sets(step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment, rename: dict[str, str]) -> Iterator[Cause]:
    of_a = _by_module(a, aligned.only_a, {})
    of_b = _by_module(b, aligned.only_b, rename)
    modules = [name for name in [*of_a, *(set(of_b) - set(of_a))] if name in of_a or name in of_b]
    if not modules:
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for module in modules:
        pair = (_names(of_a.get(module, [])), _names(of_b.get(module, [])))
        groups.setdefault(pair, []).append(module)
    for (group, two), where in list(groups.items())[:_MODULES]:
        fused = "attention" in group + two or bool(group and two)
        yield Cause(
            "fused kernel" if fused else "operators",
            f"step {step}, {where[0] or 'outside of modules'}"
            + (f" and {len(where) - 1} more" if len(where) > 1 else ""),
            group or "-",
            two or "-",
            say("the module is computed by different operators, so rounding differs; use the same kernel on both sides")
            if fused
            else say("one run computes something that the other does not"),
            POSSIBLE,
            say("a module is computed by different operators"),
        )


def _by_module(rows: RecordedRows, only: list[int], rename: dict[str, str]) -> dict[str, list[Key]]:
    by_module: dict[str, list[Key]] = {}
    for row in only:
        key = rows.keys[row]
        if key.phase == "forward" and not moves(key.operator):
            by_module.setdefault(renamed(key.module, rename), []).append(key)
    return by_module


def _names(keys: list[Key]) -> str:
    return short(", ".join(dict.fromkeys(key.operator for key in keys)), 240)


def _numel(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _equal(a: object, b: object) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-7 * max(abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_equal(mine, two) for mine, two in zip(a, b, strict=True))
    return a == b
