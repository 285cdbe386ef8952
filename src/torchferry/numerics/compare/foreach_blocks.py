"""A part of each tensor for operators on lists of tensors, such as an optimizer's: they work element by element."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from torchferry.numerics.framework.operators import Operator, tensors

FEW = 8
"""Tensors of a list that are compared where some are enough."""

BLOCK = 4096
"""Elements of a block. Of a larger tensor three are compared: the first, the last, and one between that moves."""


class Parts:
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
