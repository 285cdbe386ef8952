"""Several devices: the vendor's collective library on one machine, and what `nn.DataParallel` needs.

Collectives are gloo, under the vendor's name and on device tensors only.

`nn.DataParallel` needs copies of a tensor from one device to several, and back. A CUDA build has these functions in
`torch._C`; torch_npu puts its own there, and Moore Threads' build of torch calls those of torch_musa. What they refuse
is refused here as well (torch/csrc/cuda/comm.cpp of torch 2.6): tensors that are not on a card, shapes that do not fit,
devices that are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from torchferry.backends.base import Backend
from torchferry.backends.collectives import refusals
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.rehearsal import events, torch_versions
from torchferry.rehearsal.native import Native


def register_collectives(backend: type[Backend], devices: int, native: Native) -> None:
    """Make `init_process_group("<collective>")` known to torch.

    Does nothing where torch was built without distributed or without gloo; `init_process_group` says so itself.
    """
    if not dist.is_available() or not hasattr(dist, "ProcessGroupGloo"):
        return
    name, device = backend.COLLECTIVE, backend.DEVICE_TYPE
    refused = refusals(backend)
    for refusal in () if isinstance(refused, Unknown) else refused:
        native.refuse_in_collective(refusal.operation, refusal.dtype, refusal.text)

    def create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
        local = _ranks_here(size)
        if local > devices:
            events.record("rank", name, f"{local} ranks on {devices} devices")
            raise RuntimeError(
                f"{name}: {local} ranks on this machine, which has {devices} {device} devices; "
                "each rank needs a device of its own; where others are on other machines, LOCAL_WORLD_SIZE says how "
                "many are here, as torchrun sets it [rehearsal]"
            )
        group = torch_versions.process_group(store, rank, size)
        gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
        torch.ops.torchferry_rehearsal.add_collectives(group.boxed(), name)
        card_backend = group._get_backend(torch.device(device))
        _groups_kept_alive.append(group)  # the backend borrows the group's gloo
        return card_backend

    # Collectives of a device of torch's own type run through the kernels of a plugin's device.
    devices_served = [device] if device == torch._C._get_privateuse1_backend_name() else [device, _PLUGIN_DEVICE]
    dist.Backend.register_backend(name, create, devices=devices_served)


_PLUGIN_DEVICE = "privateuseone"
"""Torch's name for the device of a plugin that has not named it."""

_groups_kept_alive: list[Any] = []


def _ranks_here(size: int) -> int:
    """Return how many ranks share this machine: what the launcher says, else all of them."""
    import os

    value = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(value) if value.isdigit() else size


_DATA_PARALLEL = "torch.nn.DataParallel"
_EVENT_KINDS = {"missing": "missing-api", "partial": "unverified-api", "unknown": "unverified-api"}


def register_data_parallel(target: Target) -> None:
    """Put the functions where torch looks for them. What the vendor says of `nn.DataParallel` is noted at each use."""
    if hasattr(torch._C, "_scatter"):
        return
    device, kind = target.backend.DEVICE_TYPE, _EVENT_KINDS.get(target.api(_DATA_PARALLEL).status, "")

    def place(index: int) -> torch.device:
        return torch.device("cpu") if index < 0 else torch.device(device, index)

    def cards(devices: Sequence[int]) -> None:
        for index in devices:
            _require(index >= 0, f"a device's index must not be negative: {index}")

    def on_cards(tensors: Sequence[torch.Tensor], what: str) -> None:
        for index, tensor in enumerate(tensors):
            on_card = tensor.device.type == device
            _require(on_card, f"{what} at index {index} is on {tensor.device}, and must be on {device}")

    def scatter(
        tensor: torch.Tensor, devices: Sequence[int], chunk_sizes: list[int] | None, dim: int, streams: object
    ) -> list[torch.Tensor]:
        _require(len(devices) > 0, "Expected at least one device to scatter to")
        fits = not chunk_sizes or len(chunk_sizes) == len(devices)
        _require(fits, f"Expected devices and chunk_sizes to be of same length: {devices}, {chunk_sizes}")
        cards(devices)
        pieces = tensor.split_with_sizes(chunk_sizes, dim) if chunk_sizes else tensor.chunk(len(devices), dim)
        return [piece.to(place(index)) for piece, index in zip(pieces, devices, strict=False)]  # a batch may be short

    def scatter_out(tensor: torch.Tensor, out: list[torch.Tensor], dim: int, streams: object) -> list[torch.Tensor]:
        _require(len(out) > 0, "Expected at least one output tensor to scatter to")
        on_cards(out, "the output tensor")
        _alike([tensor, *out], dim)
        pieces = tensor.split_with_sizes([each.size(dim) for each in out], dim)
        return [each.copy_(piece) for each, piece in zip(out, pieces, strict=True)]

    def gather(tensors: Sequence[torch.Tensor], dim: int, destination_index: int | None) -> torch.Tensor:
        _require(len(tensors) > 0, "Expected at least one tensor to gather from")
        on_cards(tensors, "the input tensor")
        _alike(tensors, dim)
        where = place(tensors[0].get_device() if destination_index is None else destination_index)
        return torch.cat([tensor.to(where) for tensor in tensors], dim)

    def gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
        _require(len(tensors) > 0, "Expected at least one tensor to gather from")
        on_cards(tensors, "the input tensor")
        _alike([*tensors, out], dim)
        length = sum(tensor.size(dim) for tensor in tensors)
        _require(length == out.size(dim), f"the out tensor has {out.size(dim)} entries in dim {dim}, not {length}")
        return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors], dim))

    def broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
        cards(devices)
        return [tensor.to(place(index)) for index in devices]

    def broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        on_cards(out, "the output tensor")
        for index, each in enumerate(out):
            same = each.shape == tensor.shape
            _require(same, f"the output tensor at index {index} has shape {list(each.shape)}, not {list(tensor.shape)}")
        return [each.copy_(tensor) for each in out]

    def broadcast_coalesced(
        tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
    ) -> list[list[torch.Tensor]]:
        cards(devices)
        all_on_first = all(tensor.get_device() == devices[0] for tensor in tensors)
        _require(all_on_first, f"All tensors must be on devices[0]: {devices[0]}")
        return [[tensor.to(place(index)) for tensor in tensors] for index in devices]

    functions: tuple[Callable[..., Any], ...] = (
        scatter, scatter_out, gather, gather_out, broadcast, broadcast_out, broadcast_coalesced,
    )  # fmt: skip
    for function in functions:
        setattr(torch._C, f"_{function.__name__}", _noting_use(function, kind) if kind else function)


def _require(holds: bool, said: str) -> None:
    if not holds:
        raise events.refusal(RuntimeError(f"{said} [rehearsal]"))


def _alike(tensors: Sequence[torch.Tensor], dim: int) -> None:
    """Require shapes that differ in one dimension alone."""
    shapes = [[length for at, length in enumerate(each.shape) if at != dim % max(1, each.dim())] for each in tensors]
    for index, (shape, tensor) in enumerate(zip(shapes, tensors, strict=True)):
        fits = shape == shapes[0] and tensor.dim() == tensors[0].dim()
        _require(fits, f"shapes must be the same except for dim {dim}: {list(tensor.shape)} at index {index}")


def _noting_use(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        events.record(kind, _DATA_PARALLEL)
        return function(*args, **kwargs)

    return call
