"""What `nn.DataParallel` needs beside torch's own Python: copies of a tensor from one device to several, and back.

A CUDA build has these functions in `torch._C`; torch_npu puts its own there, and Moore Threads' build of torch calls
those of torch_musa.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchferry.backends.target import Target
from torchferry.rehearsal import events

_NAME = "torch.nn.DataParallel"
_KINDS = {"missing": "missing-api", "partial": "unverified-api", "unknown": "unverified-api"}


def register(target: Target) -> None:
    """Put the functions where torch looks for them. What the vendor says of `nn.DataParallel` is noted at each use."""
    if hasattr(torch._C, "_scatter"):
        return
    device, kind = target.backend.DEVICE_TYPE, _KINDS.get(target.api(_NAME).status, "")

    def place(index: int) -> torch.device:
        return torch.device("cpu") if index < 0 else torch.device(device, index)

    def scatter(
        tensor: torch.Tensor, devices: Sequence[int], chunk_sizes: list[int] | None, dim: int, streams: object
    ) -> list[torch.Tensor]:
        pieces = tensor.split_with_sizes(chunk_sizes, dim) if chunk_sizes else tensor.chunk(len(devices), dim)
        return [piece.to(place(index)) for piece, index in zip(pieces, devices, strict=False)]  # a batch may be short

    def scatter_out(tensor: torch.Tensor, out: list[torch.Tensor], dim: int, streams: object) -> list[torch.Tensor]:
        pieces = tensor.split_with_sizes([each.size(dim) for each in out], dim)
        return [each.copy_(piece) for each, piece in zip(out, pieces, strict=True)]

    def gather(tensors: Sequence[torch.Tensor], dim: int, destination_index: int | None) -> torch.Tensor:
        where = place(tensors[0].get_device() if destination_index is None else destination_index)
        return torch.cat([tensor.to(where) for tensor in tensors], dim)

    def gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
        return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors], dim))

    def broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
        return [tensor.to(place(index)) for index in devices]

    def broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [each.copy_(tensor) for each in out]

    def broadcast_coalesced(
        tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
    ) -> list[list[torch.Tensor]]:
        return [[tensor.to(place(index)) for tensor in tensors] for index in devices]

    functions: tuple[Callable[..., Any], ...] = (
        scatter, scatter_out, gather, gather_out, broadcast, broadcast_out, broadcast_coalesced,
    )  # fmt: skip
    for function in functions:
        setattr(torch._C, f"_{function.__name__}", _noted(function, kind) if kind else function)


def _noted(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        events.record(kind, _NAME)
        return function(*args, **kwargs)

    return call
