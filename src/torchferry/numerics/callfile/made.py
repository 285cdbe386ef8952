"""Values that are too many to be written: their statistics, from which others like them are made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_PIECE = 2**24
"""Elements that are looked at at a time."""


def statistics(tensor: Tensor, seed: int) -> dict[str, Any]:
    """Describe a tensor by what is needed to make another one like it; the seed says which."""
    count = total = square = 0.0
    nan = infinite = 0
    low, high = math.inf, -math.inf
    for piece in _pieces(tensor.detach()):
        values = piece.cpu().resolve_conj().resolve_neg()
        if values.is_complex():
            values = torch.view_as_real(values.to(torch.complex128))
        values = values.to(torch.float64).flatten()
        finite = values[torch.isfinite(values)]
        nan += int(torch.isnan(values).sum())
        infinite += int(torch.isinf(values).sum())
        if finite.numel():
            count += finite.numel()
            total += float(finite.sum())
            square += float(finite.square().sum())
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    mean = total / count if count else 0.0
    deviation = math.sqrt(max(square / count - mean * mean, 0.0)) if count and math.isfinite(square) else 0.0
    return {
        "seed": seed,
        "mean": mean,
        "std": deviation,
        "min": low if count else 0.0,
        "max": high if count else 0.0,
        "nan": nan,
        "inf": infinite,
    }


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Cut a tensor along its longest side until each piece is small."""
    if tensor.numel() <= _PIECE:
        yield tensor
        return
    side = max(range(tensor.dim()), key=lambda dim: tensor.shape[dim])
    half = tensor.shape[side] // 2
    yield from _pieces(tensor.narrow(side, 0, half))
    yield from _pieces(tensor.narrow(side, half, tensor.shape[side] - half))
