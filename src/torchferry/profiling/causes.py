"""What makes the difference of two runs, the likeliest first: what one of them does and the other does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchferry.core.messages import Message, say
from torchferry.profiling.comparison import MatchedRow, TraceComparison
from torchferry.profiling.formatting import milliseconds, printable
from torchferry.profiling.report import place_names, signed
from torchferry.profiling.summary import Summary

_PART = 0.3
"""Share of the difference from which on one operator is named."""

_WIDEST = 60
"""Letters of the operators of one place."""

_NOISE = 0.02
"""Share of a step below which a difference is none."""


def causes(comparison: TraceComparison) -> tuple[Message, ...]:
    """Return what makes the difference, the likeliest first; nothing where no single thing stands out."""
    return tuple(_causes(comparison))


def _causes(comparison: TraceComparison) -> Iterator[Message]:
    base, target = comparison.base.first, comparison.target.first
    is_slower = comparison.difference > _NOISE * comparison.base.step
    largest = max(comparison.parts, key=lambda part: part.difference)
    if is_slower and largest.name == "data":
        yield say(
            "the host waits for the next batch: {base} ms a step in the base, {target} ms in the target",
            base=milliseconds(largest.base),
            target=milliseconds(largest.target),
        )
    before = dict(base.fallbacks)
    for name, calls in target.fallbacks:
        if name not in before:
            yield say(
                "{name} runs on the CPU only in the target; calls a step: {count}",
                name=printable(name),
                count=_of_step(target, calls),
            )
    yield from _layouts(base, target)
    waits = [summary.numbers_read / max(len(summary.steps), 1) for summary in (base, target)]
    waiting = [sum(row.calls for row in summary.waits) / max(len(summary.steps), 1) for summary in (base, target)]
    if waits[1] >= waits[0] + 0.5 or waiting[1] >= 2 * waiting[0] + 1:
        yield say(
            "numbers read from tensors: {base} a step in the base, {target} in the target; calls that wait for the "
            "device: {base_calls} and {target_calls}",
            base=f"{waits[0]:g}",
            target=f"{waits[1]:g}",
            base_calls=f"{waiting[0]:g}",
            target_calls=f"{waiting[1]:g}",
        )
    operator = slowest_operator(comparison)
    if is_slower and operator is not None:
        yield say(
            "{name}: {time} ms a step ({base} -> {target})",
            name=printable(operator.name),
            time=signed(operator.difference),
            base=milliseconds(operator.base or 0.0),
            target=milliseconds(operator.target or 0.0),
        )
    place = comparison.places[0] if comparison.places else None
    if is_slower and place is not None and place.difference >= _PART * comparison.difference:
        yield say(
            "{base_names} of the base, {target_names} of the target at the same place: {time} ms a step",
            base_names=place_names(place.base_names, _WIDEST),
            target_names=place_names(place.target_names, _WIDEST),
            time=signed(place.difference),
        )


def slowest_operator(comparison: TraceComparison) -> MatchedRow | None:
    """Return the operator that makes a good part of the difference by itself; None where none does."""
    rows = [row for row in comparison.operators if row.difference > 0 and row.name]
    if not rows or rows[0].difference < _PART * comparison.difference:
        return None
    return rows[0]


def _layouts(base: Summary, target: Summary) -> Iterator[Message]:
    """Yield how the layouts of convolutions differ, where both traces say them."""
    sides = [_layouts_of(summary) for summary in (base, target)]
    if all(sides) and sides[0] != sides[1]:
        yield say(
            "of the convolutions of a step, {base} have inputs in channels_last in the base and {target} in the target",
            base=_of_step(base, sides[0]["channels_last"]),
            target=_of_step(target, sides[1]["channels_last"]),
        )


def _layouts_of(summary: Summary) -> Counter[str]:
    start, end = summary.window
    return Counter(call.layout for call in summary.trace.calls if call.layout and start <= call.start < end)


def _of_step(summary: Summary, calls: int) -> str:
    return f"{calls / max(len(summary.steps), 1):g}"
