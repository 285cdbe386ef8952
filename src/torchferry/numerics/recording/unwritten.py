"""Memory that a program allocates and never writes to: programs run their model on it to count operations.

What such a forward computes is another number in each run, and no batch was given to it.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from torchferry.numerics.framework.kinds import Kind
from torchferry.numerics.framework.operators import operator, tensors


class Unwritten:
    """Knows which tensors nobody has written to."""

    def __init__(self) -> None:
        self._made: dict[int, weakref.ref[Tensor]] = {}

    def see(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Take note of a call: what allocates makes such a tensor, and what moves one makes another."""
        found = operator(func)
        if not found.name.startswith("aten."):  # collectives and others write without saying so
            for tensor in tensors([*args, *kwargs.values()]):
                if _has_storage(tensor):
                    self._made.pop(tensor.untyped_storage()._cdata, None)
            return
        if found.kind is Kind.MOVE:
            if not any(isinstance(one, Tensor) and self.holds(one) for one in args):
                return
        elif found.kind is not Kind.ALLOCATE:
            return
        for tensor in found.results(args, kwargs, out):
            if _has_storage(tensor):
                self._made[tensor.untyped_storage()._cdata] = weakref.ref(tensor)

    def holds(self, tensor: Tensor) -> bool:
        """Whether nobody has written to a tensor, as far as torch counts."""
        if not self._made or not _has_storage(tensor):
            return False
        made = self._made.get(tensor.untyped_storage()._cdata)
        return made is not None and made() is not None and tensor._version == 0


def _has_storage(tensor: Tensor) -> bool:
    """Whether a tensor is a plain one, whose writes torch counts."""
    if type(tensor) is not Tensor or tensor.layout is not torch.strided:
        return False
    return not (tensor.is_inference() or tensor.is_nested)
