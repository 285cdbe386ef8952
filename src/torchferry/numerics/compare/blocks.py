"""A part of a large product or of a large result whose rows are independent: where it is compared again and again, a
moving block of it is enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from torchferry.core.messages import say
from torchferry.numerics.compare.call import Call
from torchferry.numerics.compare.fetching import Fetched
from torchferry.numerics.compare.snapshot import Place, Snapshot

_LARGE = 1 << 22
"""Multiplications from which on a product is cut."""

_SHARE = 4
"""A block is one part in so many."""

_GIVEN = {"mm": 0, "addmm": 1, "bmm": 0, "convolution": 0}
"""Argument whose first dimension is that of the result."""


_MANY = 1 << 18
"""Elements from which on a result whose rows are independent is cut."""

_BY_ROWS = frozenset(
    {"_log_softmax", "_softmax", "_log_softmax_backward_data", "_softmax_backward_data", "gelu", "gelu_backward"}
)
"""Operators that are not marked as pointwise and compute each row by itself, where their dimension is not the first."""


def _rows_of(call: Call, turn: int) -> Call:
    """Return a call for a block of the first dimension, where no row of the result depends on another."""
    result = call.results[0]
    operator, shape = call.operator, result.shape
    dimension = next((value for value in call.snapshot.args if type(value) is int), -1)
    by_rows = operator.base in _BY_ROWS and dimension not in (0, -len(shape))
    if not (by_rows or torch.Tag.pointwise in operator.overload.tags) or operator.written:
        return call
    if len(shape) < 2 or shape[0] < _SHARE or _count(shape) < _MANY or call.owners is not None:
        return call
    rows = shape[0]
    width = rows // _SHARE
    begin = min(turn % -(-rows // width) * width, rows - width)
    args = []
    for value in call.snapshot.args:
        if isinstance(value, Place) and len(value.size) == len(shape) and value.size[0] == rows:
            args.append(_cut(value, begin, width))
        elif isinstance(value, (list, tuple)) or (isinstance(value, Place) and len(value.size) > len(shape)):
            return call
        else:
            args.append(value)
    if any(isinstance(value, Place) for value in call.snapshot.kwargs.values()):
        return call
    return _part(call, args, begin, width)


def _part(call: Call, args: list[Any], begin: int, width: int) -> Call:
    result = call.results[0]
    snapshot = Snapshot(tuple(args), call.snapshot.kwargs, call.snapshot.stores, call.snapshot.size)
    part = replace(
        result, fetched=Fetched(result.fetched.tensor[begin : begin + width]), shape=(width, *result.shape[1:])
    )
    note = say(
        "{first} to {last} of {count} in the first dimension",
        first=begin,
        last=begin + width - 1,
        count=result.shape[0],
    )
    return replace(call, snapshot=snapshot, results=[part], note=note, whole=_count(result.shape))


def block_of(call: Call, turn: int) -> Call:
    """Return a call for a block of the first dimension of a large result; other calls as they are.

    Args:
        call: The call.
        turn: Its number among those of its kind: the block moves on with it, and comes to all within a few.
    """
    place = _GIVEN.get(call.operator.base)
    if place is None and len(call.results) == 1:
        return _rows_of(call, turn)
    if place is None or call.operator.overload._overloadname != "default" or len(call.results) != 1:
        return call
    given, result = call.snapshot.args[place], call.results[0]
    if not isinstance(given, Place) or not result.shape or given.size[0] != result.shape[0]:
        return call
    rows = result.shape[0]
    width = max(1, rows // _SHARE)
    if rows < _SHARE or given.size[-1] * _count(result.shape) < _LARGE:
        return call
    begin = min(turn % -(-rows // width) * width, rows - width)
    args = list(call.snapshot.args)
    args[place] = _cut(given, begin, width)
    if call.operator.base == "bmm":
        args[1] = _cut(args[1], begin, width)
    first = args[0]
    if call.operator.base == "addmm" and isinstance(first, Place) and len(first.size) == 2 and first.size[0] == rows:
        args[0] = _cut(first, begin, width)
    return _part(call, args, begin, width)


def _cut(place: Place, begin: int, width: int) -> Place:
    return place._replace(size=(width, *place.size[1:]), offset=place.offset + begin * place.stride[0])


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
