"""Values in a record: one JSON object of a log, one row of a table, one entry of a trainer's history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torchferry.numerics.curves.sample import Sample, plain

_STEPS = ("global step", "trainer global step", "step", "steps", "iteration", "iter", "num updates", "update")
_EPOCHS = ("epoch", "train epoch", "current epoch")
_RANKS = ("rank", "local rank", "global rank")
_MODES = ("mode", "split", "phase", "stage", "prefix")
_APART = ("val", "valid", "validation", "eval", "evaluation", "test")
_CLOCKS = frozenset({"timestamp", "time", "wall time", "elapsedtime", "datetime", "runtime"})
_PLACES = frozenset((*_STEPS, *_EPOCHS, *_RANKS)) | _CLOCKS
_DEEPEST = 8


def samples_of(record: Mapping[str, Any]) -> Iterator[Sample]:
    """Yield the numbers of a record under their names, `a.b` for what is nested, with the step that it states."""
    flat = dict(_flat(record))
    by_name = {plain(name): value for name, value in flat.items()}
    epoch = _number(_first(by_name, _EPOCHS))
    place = _first(by_name, _STEPS)
    if isinstance(place, (list, tuple)):  # the DLLogger family writes [epoch, step]
        numbers = [_number(part) for part in place]
        if len(numbers) >= 2:
            epoch, step = numbers[0], numbers[-1]
        else:
            epoch, step = (numbers[0] if numbers else epoch), None
    else:
        step = _number(place)
    rank = _number(_first(by_name, _RANKS))
    mode = str(_first(by_name, _MODES) or "").lower()
    for name, value in flat.items():
        if plain(name) in _PLACES or isinstance(value, (list, tuple)):
            continue
        number = _number(value)
        if number is None:
            continue
        if mode in _APART and mode not in plain(name):
            name = f"{mode} {name}"
        yield Sample(name, number, epoch, step, int(rank) if rank is not None and rank >= 0 else None)


def _flat(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            if depth < _DEEPEST:
                # DLLogger's own envelope: its names are those inside
                inner = "" if depth == 0 and name == "data" and "step" in record else f"{prefix}{name}."
                yield from _flat(value, inner, depth + 1)
        else:
            yield f"{prefix}{name}", value


def _first(values: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((values[name] for name in names if values.get(name) not in (None, "")), None)


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and value and (value[0] in "+-.0123456789" or value[:3].lower() in ("nan", "inf")):
        try:
            return float(value)
        except ValueError:
            return None
    return None
