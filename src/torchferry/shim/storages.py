"""Storages: `.cuda()`, `.is_cuda`, `.device`, and those that are made on a device."""

from __future__ import annotations

from typing import Any

import torch
from torch.storage import TypedStorage, UntypedStorage

from torchferry.shim.caller_policy import Viewers
from torchferry.shim.devices import Devices
from torchferry.shim.patch_factories import with_device
from torchferry.shim.patch_tensors import shown_device, shown_is_cuda
from torchferry.shim.patches import Patches


def patch(patches: Patches, devices: Devices, viewers: Viewers) -> None:
    """Redirect both kinds of storage."""
    for kind in (UntypedStorage, TypedStorage):
        original = kind.device
        get = original.fget if isinstance(original, property) else original.__get__
        patches.set(kind, "device", property(shown_device(get, devices, viewers)))
        patches.set(kind, "is_cuda", property(shown_is_cuda(get, devices, viewers)))
        patches.set(kind, "cuda", _cuda(kind.cuda, devices))
        if hasattr(kind, "to"):  # since torch 2.2
            patches.set(kind, "to", _to(kind.to, devices))
    patches.set(UntypedStorage, "__new__", staticmethod(with_device(UntypedStorage.__new__, devices)))
    patches.set(TypedStorage, "__init__", with_device(TypedStorage.__init__, devices))


def _cuda(original: Any, devices: Devices) -> Any:
    def cuda_(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        if not devices.to_card:
            return original(self, device, non_blocking)
        return moved(self, torch.device(devices.place(device)), non_blocking)

    return cuda_


def moved(storage: Any, place: torch.device, non_blocking: bool = False) -> Any:
    """Return a storage on a device of the card; torch 2.1 has the method alone that the plugin adds."""
    if hasattr(storage, "to"):
        return storage.to(device=place, non_blocking=non_blocking)
    return getattr(storage, place.type)(place.index, non_blocking)


def _to(original: Any, devices: Devices) -> Any:
    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        return original(self, device=torch.device(devices.of(device)), non_blocking=non_blocking)

    return to
