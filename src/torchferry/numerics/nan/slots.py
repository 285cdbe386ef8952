"""One number for each result of a step, on the device that has the result; read together when the step has ended.

The number is the sum in float32: no NaN and no infinity can be missed by it, it needs no memory of its own, and the
device is not waited for. A sum of finite numbers beyond 3.4e38 is infinite too; whoever reads it looks again.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchferry.numerics.framework.statistics import COMPLEX, FINITE, INFINITE, NAN, NARROW

CHUNK = 4096
"""Slots that are made at once."""

_DIMENSIONS = [list(range(rank)) for rank in range(65)]


class Slots:
    """The slots of one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._chunks: list[Tensor] = []
        self._slots: list[Tensor] = []
        self.used = 0

    def take(self, tensor: Tensor) -> int:
        """Sum a tensor into the next slot and return the slot's number."""
        if tensor.dtype in COMPLEX:
            tensor = torch.view_as_real(tensor.resolve_conj())
        elif tensor.dtype in NARROW:
            tensor = tensor.to(torch.float32)
        number = self.used
        if number == len(self._slots):
            self._grow()
        torch.sum(tensor, dim=_DIMENSIONS[tensor.dim()], dtype=torch.float32, out=self._slots[number])
        self.used = number + 1
        return number

    def read(self) -> list[int]:
        """Return FINITE, INFINITE or NAN for each slot that was used, and use them anew: the one wait of a step."""
        used, self.used = self.used, 0
        kinds: list[int] = []
        for chunk in self._chunks:
            taken = min(used - len(kinds), CHUNK)
            if taken <= 0:
                break
            values = chunk[:taken].cpu()
            if bool(torch.isfinite(values).all()):
                kinds += [FINITE] * taken
            else:
                kinds += [
                    NAN if math.isnan(value) else INFINITE if math.isinf(value) else FINITE for value in values.tolist()
                ]
        return kinds

    def _grow(self) -> None:
        chunk = torch.zeros(CHUNK, dtype=torch.float32, device=self._device)
        self._chunks.append(chunk)
        self._slots += chunk.unbind()
