"""The vendor's collective library on one machine: gloo, under the vendor's name and on device tensors only."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from torchferry.backends.base import Backend
from torchferry.backends.collectives import refusals
from torchferry.backends.unknown import Unknown
from torchferry.rehearsal import events
from torchferry.rehearsal.native import Native


def register(backend: type[Backend], devices: int, native: Native) -> None:
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
                "each rank needs a device of its own [rehearsal]"
            )
        group = dist.ProcessGroup(store, rank, size)
        gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
        torch.ops.torchferry_rehearsal.add_collectives(group.boxed(), name)
        made = group._get_backend(torch.device(device))
        _kept.append(group)  # the backend borrows the group's gloo
        return made

    # Collectives of a device of torch's own type run through the kernels of a plugin's device.
    devices_served = [device] if device == torch._C._get_privateuse1_backend_name() else [device, _PLUGIN_DEVICE]
    dist.Backend.register_backend(name, create, devices=devices_served)


_PLUGIN_DEVICE = "privateuseone"
"""Torch's name for the device of a plugin that has not named it."""

_kept: list[Any] = []


def _ranks_here(size: int) -> int:
    """Return how many ranks share this machine: what the launcher says, else all of them."""
    import os

    value = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(value) if value.isdigit() else size
