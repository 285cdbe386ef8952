"""`torch.accelerator`, where torch itself does not take the card for one: it would name none, or the CPU's."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import parameter_names
from torchferry.shim.no_device import QUESTIONS, DeviceCountGuard
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver

_DEVICE = ("device", "device_index")


def patch(patches: Patches, resolver: Resolver, policy: CallerPolicy, guard: DeviceCountGuard) -> None:
    """Redirect `torch.accelerator` to the card, where it does not know it."""
    module = getattr(torch, "accelerator", None)
    if module is None:
        return
    if _type_of(module) == resolver.devices.card:
        _take_devices(patches, resolver, policy, module)
        _answer(patches, resolver, policy, module, guard)
        return

    available = resolver.counterpart("torch.cuda.is_available", torch.cuda.is_available)

    def current_accelerator(check_available: bool = False) -> torch.device | None:
        # CUDA's, since torch has no module of the card's own name, by which a library would go on
        return torch.device(cuda.DEVICE_TYPE) if not check_available or available() else None

    patches.set_view(module, "current_accelerator", current_accelerator, policy)
    for name, counterpart in (
        ("is_available", "torch.cuda.is_available"),
        ("device_count", "torch.cuda.device_count"),
        ("current_device_index", "torch.cuda.current_device"),
        ("current_device_idx", "torch.cuda.current_device"),
        ("set_device_index", "torch.cuda.set_device"),
        ("set_device_idx", "torch.cuda.set_device"),
        ("synchronize", "torch.cuda.synchronize"),
        ("current_stream", "torch.cuda.current_stream"),
        ("empty_cache", "torch.cuda.empty_cache"),
        ("memory_allocated", "torch.cuda.memory_allocated"),
        ("max_memory_allocated", "torch.cuda.max_memory_allocated"),
        ("memory_reserved", "torch.cuda.memory_reserved"),
        ("max_memory_reserved", "torch.cuda.max_memory_reserved"),
    ):
        original = getattr(module, name, None)
        if original is not None:
            patches.set_view(module, name, resolver.counterpart(counterpart, original), policy)


def _take_devices(patches: Patches, resolver: Resolver, policy: CallerPolicy, module: Any) -> None:
    """Let its functions, whose device is their first argument, take one of CUDA."""
    patched_functions: dict[Any, Any] = {}
    for owner in (module, getattr(module, "memory", module)):
        for name, original in list(vars(owner).items()):
            if inspect.isfunction(original) and not name.startswith("_") and _first(original) in _DEVICE:
                patched = resolver.parameters.translated(original)
                if name == "current_stream":
                    patched = policy.dispatch_by_caller(patched, _shown_stream(patched))
                patches.set(owner, name, patched_functions.setdefault(original, patched))


def _answer(patches: Patches, resolver: Resolver, policy: CallerPolicy, module: Any, guard: DeviceCountGuard) -> None:
    """Let it tell the program of CUDA, as every tensor does; a card that is missing is no reason for the CPU."""
    watched = {name: guard.watched(getattr(module, name), f"{module.__name__}.{name}") for name in QUESTIONS}
    for name, function in watched.items():
        patches.set_view(module, name, function, policy)
    original, to_cuda = module.current_accelerator, resolver.devices.to_cuda

    @functools.wraps(original)
    def current_accelerator(check_available: bool = False) -> torch.device | None:
        if check_available and not watched["is_available"]():
            return None
        device: torch.device | None = original()
        return None if device is None else to_cuda.get(device, device)

    patches.set_view(module, "current_accelerator", current_accelerator, policy)


def _first(function: Any) -> str:
    return next(iter(parameter_names(function)), "")


def _shown_stream(original: Any) -> Any:
    """Return `original` with its stream as one of the class that shows its device; torch's own cannot be changed."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        stream = original(*args, **kwargs)
        return torch.Stream(
            stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
        )  # fmt: skip

    return call


def _type_of(module: Any) -> str:
    device = module.current_accelerator()
    return "" if device is None else str(device.type)
