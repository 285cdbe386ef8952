"""Functions that make tensors: their `device` argument.

Which functions take one is asked of torch: its own list of device constructors, the operators that select a device, and
those that make a tensor like another and have a parameter `device`. TorchScript is told which builtin each patched
function is, so that scripts compile as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.jit import _builtins
from torch.utils import _device

from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import Devices, with_device
from torchferry.shim.patch_tensors import shown_device
from torchferry.shim.patches import Patches

_NOT_FACTORIES = frozenset({"Generator", "to", "pin_memory", "is_pinned"})
"""Take a device and are patched in their own way."""


def patch(patches: Patches, devices: Devices, policy: CallerPolicy) -> None:
    """Redirect the factories of `torch`, `torch.fft` and `torch.nested`, `Tensor.new_*`, and the default device."""
    _patch_default(patches, devices, policy)
    for owner, name in factories():
        original = getattr(owner, name)
        patched = with_device(original, devices)
        script_as(patches, patched, original)
        patches.set(owner, name, patched)


def script_as(patches: Patches, patched: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Tell TorchScript which builtin of torch a patched function is."""
    builtin = _builtins._find_builtin(original)  # type: ignore[no-untyped-call]
    if builtin is not None:
        table: Any = _builtins._builtin_table
        patches.set_item(table, id(patched), builtin)


def _patch_default(patches: Patches, devices: Devices, policy: CallerPolicy) -> None:
    """`with torch.device(...)` and `torch.set_default_device` hold a device that torch gives to every factory."""
    context = _device.DeviceContext
    enter = context.__init__

    @functools.wraps(enter)
    def init(self: Any, device: Any) -> None:
        enter(self, devices.of(device))

    patches.set(context, "__init__", init)
    real_default: Callable[[], torch.device] | None = getattr(torch, "get_default_device", None)
    if real_default is None:  # since torch 2.3
        return

    def itself(device: torch.device) -> torch.device:
        return device

    shown = shown_device(itself, devices, policy, depth=2)

    @functools.wraps(real_default)
    def get_default_device() -> torch.device:
        device: torch.device = shown(real_default())
        return device

    patches.set(torch, "get_default_device", get_default_device)


def factories() -> Iterator[tuple[Any, str]]:
    """Yield owner and name of every function of torch that makes a tensor on a device."""
    constructors = _device._device_constructors()
    selecting = {name.partition(".")[0] for name in device_selecting_operators()}
    for owner, prefix in ((torch, ""), (torch.fft, "fft_"), (torch.nested, "nested_")):
        for name in dir(owner):
            value = getattr(owner, name)
            if isinstance(value, (BuiltinFunctionType, FunctionType)) and name not in _NOT_FACTORIES:
                operator = prefix + name
                if value in constructors or (
                    _is_operator(value)
                    and (operator in selecting or (name.endswith("_like") and _takes_device(operator)))
                ):
                    yield owner, name
    for name in dir(torch.Tensor):
        if name.startswith("new_") and (_takes_device(name) or name == "new_tensor"):
            yield torch.Tensor, name


def _takes_device(operator: str) -> bool:
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{operator}")
    return any(argument.name == "device" for schema in schemas for argument in schema.arguments)


def _is_operator(value: Any) -> bool:
    return isinstance(value, BuiltinFunctionType) or getattr(value, "__module__", "") == "torch.functional"


ATEN = "aten"


@lru_cache(maxsize=1)
def device_selecting_operators() -> frozenset[str]:
    """Return them with their overloads, such as `empty.memory_format`.

    torch registers a kernel for each that selects the device. Asking for the parameters of every operator would say the
    same, and take many times as long.
    """
    prefix = f"{ATEN}::"
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("BackendSelect")
    return frozenset(name.removeprefix(prefix) for name in registered if name.startswith(prefix))
