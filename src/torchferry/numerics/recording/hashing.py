"""Hashes of tensors that are made where the tensors lie, without waiting, and are the same on every device.

A hash is a sum of bit patterns times odd-looking 64-bit weights, with overflow: integer sums do not depend on the order
of addition, so that any device gets the same. It finds changes; it does not resist an attacker.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torchferry.numerics.recording.sketching import pseudorandom

_PIECE = 1 << 12
_AT_ONCE = 1 << 20
"""Elements that are widened to 64 bits at a time."""

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Hasher:
    """Hashes tensors; keeps its weights on each device."""

    def __init__(self) -> None:
        self._weights: dict[tuple[torch.device, int], Tensor] = {}

    def rows(self, tensor: Tensor) -> Tensor:
        """Return a hash of each entry of the first dimension, or of the whole where there is none."""
        try:
            return self._rows(tensor)
        except (RuntimeError, NotImplementedError):  # a device without 64-bit integers
            return self._rows(tensor.cpu())

    def whole(self, tensor: Tensor) -> Tensor:
        """Return one hash of all elements, as a tensor of one number."""
        try:
            return self._whole(tensor)
        except (RuntimeError, NotImplementedError):
            return self._whole(tensor.cpu())

    def _rows(self, tensor: Tensor) -> Tensor:
        bits = _bits(tensor)
        count = tensor.shape[0] if tensor.dim() else 1
        bits = bits.reshape(count, -1)
        if bits.shape[1] == 0 or count == 0:
            return torch.zeros(count, dtype=torch.int64, device=tensor.device)
        many = max(1, _AT_ONCE // bits.shape[1])
        if many >= count and bits.shape[1] <= _AT_ONCE:
            return self._hashed(bits)
        if bits.shape[1] > _AT_ONCE:
            return torch.stack([self._long(row) for row in bits])
        return torch.cat([self._hashed(bits[first : first + many]) for first in range(0, count, many)])

    def _whole(self, tensor: Tensor) -> Tensor:
        bits = _bits(tensor).reshape(-1)
        if bits.numel() == 0:
            return torch.zeros(1, dtype=torch.int64, device=tensor.device)
        return self._long(bits).reshape(1)

    def _long(self, bits: Tensor) -> Tensor:
        parts = [self._hashed(bits[first : first + _AT_ONCE].reshape(1, -1)) for first in range(0, len(bits), _AT_ONCE)]
        return (torch.cat(parts) * self._weight(bits.device, len(parts), 6)).sum()

    def _hashed(self, bits: Tensor) -> Tensor:
        """Hash each row of a matrix: pieces first, then the pieces' hashes."""
        wide = bits.to(torch.int64)
        rows, length = wide.shape
        device = bits.device
        if length <= _PIECE:
            return (wide * self._weight(device, length, 4)).sum(1)
        pieces, rest = divmod(length, _PIECE)
        body = wide[:, : pieces * _PIECE].reshape(rows, pieces, _PIECE)
        sums = (body * self._weight(device, _PIECE, 4)).sum(2)
        found = (sums * self._weight(device, pieces, 5)).sum(1)
        if rest:
            tail = (wide[:, pieces * _PIECE :] * self._weight(device, rest, 4)).sum(1)
            found = found + tail * int(pseudorandom(pieces + 1, 5)[-1])
        return found

    def _weight(self, device: torch.device, count: int, stream: int) -> Tensor:
        found = self._weights.get((device, stream))
        if found is None or len(found) < count:
            found = self._weights[(device, stream)] = pseudorandom(max(count, _PIECE), stream).to(device)
        return found[:count]


def _bits(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype is torch.bool:
        return tensor.to(torch.uint8)
    tensor = tensor.contiguous()
    if tensor.dtype in _INTEGERS.values():
        return tensor
    return tensor.reshape(-1).view(_INTEGERS[tensor.element_size()]).reshape(tensor.shape)
