"""Reading and writing files: `map_location`, and storages that were saved on CUDA.

The path of a file is nobody's device: only `map_location` is looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches
from torchferry.shim.storages import moved

_PRIORITY = 15
"""Between torch's own CPU (10) and CUDA (20): storages saved on CUDA go to the card."""


def patch(patches: Patches, devices: Devices) -> None:
    """Redirect `torch.load`, `torch.jit.load` and the places that storages are restored to."""
    load = _load(torch.load, devices, position=1)
    for module in (torch, torch.serialization):
        patches.set(module, "load", load)
    patches.set(torch.jit, "load", _load(torch.jit.load, devices, position=1))
    registry = torch.serialization._package_registry
    entry = (_PRIORITY, _no_tag, _restore(devices))
    registry.append(entry)
    registry.sort(key=lambda one: one[0])
    patches.at_end(lambda: registry.remove(entry))


def _load(original: Callable[..., Any], devices: Devices, position: int) -> Callable[..., Any]:
    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        if len(args) > position:
            args = (*args[:position], _location(args[position], devices), *args[position + 1 :])
        elif "map_location" in kwargs:
            kwargs["map_location"] = _location(kwargs["map_location"], devices)
        return original(*args, **kwargs)

    return load


def _location(location: Any, devices: Devices) -> Any:
    """Return `map_location` for the card: a device, or a table that serves files of CUDA and of the card."""
    if isinstance(location, dict):
        there = {key: str(devices.of(value)) for key, value in location.items()}
        return {**{str(devices.of(key)): value for key, value in there.items()}, **there}
    return _told(location, devices) if callable(location) else devices.of(location)


def _told(function: Callable[[Any, str], Any], devices: Devices) -> Callable[[Any, str], Any]:
    """Return the program's function, which asks for places on CUDA, for files that were written on the card."""

    @functools.wraps(function)
    def call(storage: Any, location: str) -> Any:
        shown = {str(card): str(cuda_) for card, cuda_ in devices.to_cuda.items()}
        return function(storage, shown.get(location, location))

    return call


def _no_tag(storage: Any) -> None:
    return None


def _restore(devices: Devices) -> Callable[[Any, str], Any]:
    def restore(storage: Any, location: str) -> Any:
        if not location.startswith(cuda.DEVICE_TYPE):
            return None
        place = devices.to_card.get(location)
        return None if place is None else moved(storage, place)

    return restore
