"""Causes of a difference in what a run made: weights, updates of parameters, operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from torchferry.core.messages import Message, say
from torchferry.numerics.framework.kinds import moves
from torchferry.numerics.rundiff.alignment import Alignment, renamed
from torchferry.numerics.rundiff.causes import CERTAIN, NOTE, POSSIBLE, Cause, equal, short
from torchferry.numerics.rundiff.judging import JudgedRow
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

_LENGTH = 2.0**-10
"""Relative difference of the lengths of two updates, over all parameters, that the rounding of sketches explains."""


def causes_in_updates(
    step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment, judged: list[JudgedRow], reported: set[str]
) -> Iterator[Cause]:
    """Yield a cause where an optimizer made other updates than its gradients explain.

    Either most updates are beyond their limits, or all are longer or shorter by the same: gradients that are off, as
    those of bfloat16 are, turn the update of a parameter, and make it neither longer nor shorter.
    """
    updates = [row for row in judged if a.keys[aligned.pairs[row.pair][0]].phase == names.UPDATE]
    if not updates or "optimizer step" in reported:
        return
    beyond = [row for row in updates if row.beyond]
    lengths = [(float(a.norms[i]), float(b.norms[j])) for i, j in (aligned.pairs[row.pair] for row in updates)]
    ratios = [two / one for one, two in lengths if one > 0 and np.isfinite([one, two]).all()]
    middle = float(np.median(ratios)) if ratios else 1.0
    turned = float(np.median([row.error for row in updates]))
    usual = _LENGTH + turned / np.sqrt(len(updates)) + turned**2
    changed = {a.keys[aligned.pairs[row.pair][0]].module for row in updates}
    gradients = [(i, j) for i, j in aligned.pairs if a.keys[i].phase == names.GRADIENT and a.keys[i].module in changed]
    given = [float(b.norms[j] / a.norms[i]) for i, j in gradients if a.norms[i] > 0 and np.isfinite(b.norms[j])]
    of_gradients = float(np.median(given)) if given else 1.0  # a longer gradient may make a longer step, or none
    longer = min(abs(middle - 1), abs(middle / max(of_gradients, 1e-30) - 1))
    if 2 * len(beyond) < len(updates) and longer <= usual:
        return
    reported.add("optimizer step")
    worst = max(beyond or updates, key=lambda row: row.error)
    name = a.keys[aligned.pairs[worst.pair][0]].module
    yield Cause(
        "optimizer step",
        f"step {step}, {name}" + (f" and {len(updates) - 1} more" if len(updates) > 1 else ""),
        say("updates of length {value}", value="1").render("en"),
        say(
            "of length {value}; they differ by {error} of it", value=f"{middle:.4g}", error=f"{worst.error:.3g}"
        ).render("en"),
        say("the gradients do not explain it: look at the optimizer's settings, its state, and its fused kernel"),
        CERTAIN,
        say("the optimizer made different updates"),
    )


# Did the two runs compute with the same operators, told the same, in the same dtypes?

_EPSILON = frozenset({"native_layer_norm", "native_group_norm", "native_batch_norm", "_fused_rms_norm", "rms_norm"})
_MODULES = 6


def causes_in_operators(
    step: int,
    a: RecordedRows,
    b: RecordedRows,
    aligned: Alignment,
    by_name: Alignment,
    judged: list[JudgedRow],
    rename: dict[str, str],
) -> Iterator[Cause]:
    """Yield what differs in the operators of one step.

    Args:
        step: Its number.
        a: The reference.
        b: The other.
        aligned: Rows that are the same numbers.
        by_name: Rows that have the same names.
        judged: What the first are off.
        rename: Outermost modules of `b` that have another name in `a`.
    """
    yield from _told(step, a, b, aligned)
    yield from _dtypes(step, a, b, aligned)
    yield from _sets(step, a, b, by_name, (aligned, judged), rename)


def _told(step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment) -> Iterator[Cause]:
    seen: dict[str, Cause] = {}
    more: Counter[str] = Counter()
    for i, j in aligned.pairs:
        value_a, value_b = a.arguments[i], b.arguments[j]
        key = a.keys[i]
        if key.phase != "forward" or key.operator != b.keys[j].operator or equal(value_a, value_b):
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
    differing = [
        (i, j)
        for i, j in aligned.pairs
        if a.keys[i].dtype != b.keys[j].dtype and not (a.whole[i] and b.whole[j])  # devices index by other integers
    ]
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


def _sets(
    step: int,
    a: RecordedRows,
    b: RecordedRows,
    aligned: Alignment,
    measured: tuple[Alignment, list[JudgedRow]],
    rename: dict[str, str],
) -> Iterator[Cause]:
    of_a = _by_module(a, aligned.only_a, {})
    of_b = _by_module(b, aligned.only_b, rename)
    modules = [*of_a, *(name for name in of_b if name not in of_a)]
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
            _behind(a, measured, where) if fused else say("one run computes something that the other does not"),
            POSSIBLE,
            say("a module is computed by different operators"),
        )


def _behind(a: RecordedRows, measured: tuple[Alignment, list[JudgedRow]], modules: list[str]) -> Message:
    """Say what is known of modules whose operators have no counterpart: by what was computed from their results."""
    aligned, judged = measured
    held = set(modules)
    behind = [
        row
        for row in judged
        if any(a.keys[maker].module in held for maker in row.unknown)
        and a.keys[aligned.pairs[row.pair][0]].phase == "forward"
    ]
    if not behind:
        return say("the module is computed by different operators, and nothing shows whether they give the same")
    worst = max(behind, key=lambda row: row.error)
    what = a.keys[aligned.pairs[worst.pair][0]]
    place = f"{what.module} {what.operator}".strip()
    if worst.beyond:
        return say(
            "what is computed from it, {place}, differs by {error}, and rounding by {limit} at most",
            place=place,
            error=f"{worst.error:.2g}",
            limit=f"{worst.limit:.2g}",
        )
    return say(
        "what is computed from it differs by {error}, which is within the limit: they round differently",
        error=f"{worst.error:.2g}",
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
