"""A part of a large product or of a large result whose rows are independent: where it is compared again and again, a
moving block of it is enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import say
from torchferry.numerics.compare.snapshot import ComparedCall, Fetched, Snapshot, StridedPlace
from torchferry.numerics.framework.operators import Operator, tensors

# A part of each tensor for operators on lists of tensors, such as an optimizer's: they work element by element.


FEW = 8
"""Tensors of a list that are compared where some are enough."""

BLOCK = 4096
"""Elements of a block. Of a larger tensor three are compared: the first, the last, and one between that moves."""


class ForeachBlocks:
    """Cuts the arguments of calls on lists; the cuts are views, so that what is written to them is seen.

    Args:
        args: Positional arguments.
        kwargs: Arguments by name.
        turn: Number of the call among those of its kind: the block between moves on with it.
        limit: Bytes up to which nothing is cut; 0 to cut whatever is large.
        few: Whether some tensors of a long list are enough, others with each turn.

    Attributes:
        whole: Whether all elements of all tensors are in the parts: then nothing is cut.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], turn: int, limit: int, few: bool = False) -> None:
        lists = [value for value in (*args, *kwargs.values()) if _is_tensors(value)]
        self._length = max((len(value) for value in lists), default=0)
        aligned = [value for value in lists if len(value) == self._length]
        fits = limit > 0 and (
            sum([tensor.numel() * tensor.element_size() for value in lists for tensor in tensors(value)]) <= limit
        )
        self.whole = True
        self._cuts: list[tuple[int, int, int]] = []
        chosen: Iterable[int] = range(self._length)
        if few and self._length > FEW:
            self.whole = False
            chosen = sorted((turn * FEW + number) % self._length for number in range(FEW))
        for number in chosen:
            row = [value[number] for value in aligned]
            largest = 0 if fits else max([tensor.numel() for tensor in row])
            if fits or largest <= 3 * BLOCK or not _alike(row, largest):
                self._cuts.append((number, -1, -1))
                continue
            self.whole = False
            between = largest - 2 * BLOCK
            middle = BLOCK + min(turn % -(-between // BLOCK) * BLOCK, between - BLOCK)
            for begin in (0, middle, largest - BLOCK):
                self._cuts.append((number, begin, largest))

    def cut(self, value: Any) -> Any:
        """Return what takes the place of an argument, or of a result."""
        if self.whole or not isinstance(value, (list, tuple)) or len(value) != self._length or not value:
            return value
        return [self._block(value[number], begin, largest) for number, begin, largest in self._cuts]

    def owners(self) -> list[int]:
        """Return the number of the tensor that each part is of."""
        return [number for number, _, _ in self._cuts]

    @staticmethod
    def _block(value: Any, begin: int, largest: int) -> Any:
        if not isinstance(value, Tensor) or begin < 0 or value.numel() != largest:
            return value  # a number, or a tensor of one, that stands for all elements
        flat = value.detach().as_strided((largest,), (1,), value.storage_offset())
        return flat[begin : begin + BLOCK]


def applies(operator: Operator, args: tuple[Any, ...]) -> bool:
    """Whether there is a list to be cut."""
    return bool(args) and _is_tensors(args[0])


def _is_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Tensor)


def _alike(row: list[Tensor], largest: int) -> bool:
    """Whether the same place in memory is the same element in all of them, and none has gaps."""
    first = next(tensor for tensor in row if tensor.numel() == largest)
    for tensor in row:
        if tensor.numel() == largest and (
            tensor.stride() != first.stride()
            or tensor.layout is not torch.strided
            or not torch.ops.aten.is_non_overlapping_and_dense(tensor)
        ):
            return False
    return True


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


def _rows_of(call: ComparedCall, turn: int) -> ComparedCall:
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
        if isinstance(value, StridedPlace) and len(value.size) == len(shape) and value.size[0] == rows:
            args.append(_cut(value, begin, width))
        elif isinstance(value, (list, tuple)) or (isinstance(value, StridedPlace) and len(value.size) > len(shape)):
            return call
        else:
            args.append(value)
    if any(isinstance(value, StridedPlace) for value in call.snapshot.kwargs.values()):
        return call
    return _part(call, args, begin, width)


def _part(call: ComparedCall, args: list[Any], begin: int, width: int) -> ComparedCall:
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


def block_of(call: ComparedCall, turn: int) -> ComparedCall:
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
    if not isinstance(given, StridedPlace) or not result.shape or given.size[0] != result.shape[0]:
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
    if (
        call.operator.base == "addmm"
        and isinstance(first, StridedPlace)
        and len(first.size) == 2
        and first.size[0] == rows
    ):
        args[0] = _cut(first, begin, width)
    return _part(call, args, begin, width)


def _cut(place: StridedPlace, begin: int, width: int) -> StridedPlace:
    return place._replace(size=(width, *place.size[1:]), offset=place.offset + begin * place.stride[0])


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
