"""Whole tensors of chosen modules."""

from __future__ import annotations

from fnmatch import fnmatchcase

import torch
from torch import Tensor

from torchferry.numerics.recording.storing import DTYPES, container


class Kept:
    """The results of a step that are kept whole, by their rows."""

    def __init__(self, patterns: tuple[str, ...], limit: int) -> None:
        self._patterns = patterns
        self._limit = limit
        self._wanted: dict[str, bool] = {}
        self._bytes = 0
        self._left_out = 0
        self._tensors: dict[int, Tensor] = {}

    def clear(self) -> None:
        """Begin a step."""
        self._tensors = {}
        self._bytes = 0
        self._left_out = 0

    def add(self, module: str, row: int, tensor: Tensor) -> None:
        """Keep a tensor where its module is wanted; beyond the limit it is counted and left out."""
        wanted = self._wanted.get(module)
        if wanted is None:
            wanted = self._wanted[module] = any(fnmatchcase(module, pattern) for pattern in self._patterns)
        if not wanted or str(tensor.dtype).removeprefix("torch.") not in DTYPES:
            return
        self._bytes += tensor.numel() * tensor.element_size()
        if self._bytes > self._limit:
            self._left_out += 1
            return
        self._tensors[row] = tensor.to("cpu", copy=True)

    def file(self) -> bytes | None:
        """Return the kept tensors as a safetensors file, or None where there are none."""
        if not self._tensors:
            return None
        parts = {
            str(row): (str(tensor.dtype).removeprefix("torch."), list(tensor.shape), _bytes(tensor))
            for row, tensor in self._tensors.items()
        }
        return container(parts, {"left_out": str(self._left_out)})


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
