"""Automatic mixed precision in every spelling: `torch.cuda.amp`, `torch.amp`, `torch.autocast`, the state functions.

`torch.cuda.amp` itself belongs to the namespace; here are the functions that take a device type, or mean CUDA where
they are given none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.amp

from torchferry.backends import cuda
from torchferry.core.messages import say
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.devices import Devices
from torchferry.shim.patch_factories import script_as
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver
from torchferry.shim.warned import warn_user

STATE = ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")
"""Functions of torch that take a device type in front, or speak of CUDA without one."""

OLD_STATE = {"get_autocast_gpu_dtype": "get_autocast_dtype", "set_autocast_gpu_dtype": "set_autocast_dtype"}
"""Older names that speak of CUDA alone, and the function that takes a device type."""

_HALVES = (torch.float16, torch.bfloat16)
"""What autocast computes in; torch's own, given another dtype, warns and is off."""


def patch(patches: Patches, resolver: Resolver, viewers: Viewers) -> None:
    """Redirect mixed precision."""
    devices = resolver.devices
    autocast = torch.amp.autocast_mode.autocast
    patches.set(autocast, "__init__", _typed(autocast.__init__, devices, position=1))
    if resolver.target.backend.AUTOCAST is False:
        own = _own_autocast(resolver, autocast)
        for module in (torch, torch.amp, torch.amp.autocast_mode):
            patches.set_view(module, "autocast", own, viewers)
    if hasattr(torch.amp, "grad_scaler"):  # since torch 2.3
        scaler = torch.amp.grad_scaler.GradScaler
        patches.set(
            scaler, "__init__", _typed(scaler.__init__, devices, position=1, default=cuda.DEVICE_TYPE, name="device")
        )
    if not hasattr(torch, "get_autocast_dtype"):
        _patch_older(patches, devices)
        return
    for name in ("custom_fwd", "custom_bwd"):
        patched = _typed(getattr(torch.amp, name), devices)
        for module in (torch.amp, torch.amp.autocast_mode):
            patches.set(module, name, patched)
    for module in (torch.amp, torch.amp.autocast_mode):
        patches.set(module, "is_autocast_available", _typed(torch._C._is_autocast_available, devices, position=0))
    for name in STATE:
        original = getattr(torch, name)
        patched = _state(original, devices)
        script_as(patches, patched, original)
        patches.set(torch, name, patched)
    for old, new in OLD_STATE.items():
        patches.set(torch, old, _old_state(getattr(torch, old), getattr(torch, new), devices))


def _patch_older(patches: Patches, devices: Devices) -> None:
    """Redirect the state functions of torch 2.1 to 2.3, which take no device type, to those of the plugin."""
    own = getattr(torch, devices.card, None)
    for name in ("is_autocast_enabled", "set_autocast_enabled", *OLD_STATE):
        counterpart = getattr(own, OLD_STATE.get(name, name), None)
        if counterpart is not None:
            patches.set(torch, name, _while_redirected(getattr(torch, name), counterpart, devices))


def _while_redirected(original: Callable[..., Any], counterpart: Callable[..., Any], devices: Devices) -> Any:
    @functools.wraps(original)
    def call(*args: Any) -> Any:
        return (counterpart if devices.to_card else original)(*args)

    return call


def _typed(
    original: Callable[..., Any],
    devices: Devices,
    *,
    position: int = -1,
    default: str | None = None,
    name: str = "device_type",
) -> Callable[..., Any]:
    """Return `original` with its device type, at `position` or under `name`, translated."""
    type_of = devices.type_of

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if 0 <= position < len(args):
            args = (*args[:position], type_of(args[position]), *args[position + 1 :])
        elif name in kwargs:
            kwargs[name] = type_of(kwargs[name])
        elif default is not None:
            kwargs[name] = type_of(default)
        return original(*args, **kwargs)

    return call


def _state(original: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    type_of = devices.type_of

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and args[0].__class__ is str:
            args = (type_of(args[0]), *args[1:])
        elif "device_type" in kwargs:
            kwargs["device_type"] = type_of(kwargs["device_type"])
        else:
            args = (type_of(cuda.DEVICE_TYPE), *args)
        return original(*args, **kwargs)

    return call


def _old_state(original: Callable[..., Any], typed: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any) -> Any:
        return typed(devices.card, *args) if devices.to_card else original(*args)

    return call


def _own_autocast(resolver: Resolver, original: type) -> type:
    """Return what stands for `torch.autocast` where torch's own does not serve the card: the plugin's, for CUDA."""
    own = resolver.counterpart("torch.cuda.amp.autocast", original)
    devices = resolver.devices

    class Meta(type):
        def __call__(
            cls,
            device_type: str,
            dtype: torch.dtype | None = None,
            enabled: bool = True,
            cache_enabled: bool | None = None,
        ) -> Any:
            if devices.type_of(device_type) == device_type:
                return original(device_type, dtype, enabled, cache_enabled)
            options: dict[str, Any] = {"enabled": enabled}
            if dtype in _HALVES:
                options["dtype"] = dtype
            elif dtype is not None and enabled:
                warn_user(
                    say("autocast has float16 and bfloat16 and not {dtype}: it is off here, as on CUDA", dtype=dtype)
                )
                options["enabled"] = False
            if cache_enabled is not None:
                options["cache_enabled"] = cache_enabled
            return own(**options)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, (original, own) if isinstance(own, type) else original)

    return Meta("autocast", (), {"__doc__": original.__doc__, "__module__": original.__module__})
