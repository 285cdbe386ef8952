"""Operators of the program's own: what it registers for CUDA is registered for the card.

Only what the program, or a library that sees a CUDA device, registers: torch's own registrations stay where they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.library

from torchferry.backends import cuda
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches
from torchferry.shim.signatures import parameters

_KEY = "CUDA"
"""How the dispatch keys of CUDA end: `CUDA`, `AutogradCUDA`, `AutocastCUDA`."""

_PARAMETERS = frozenset({"dispatch_key", "types", "device_types", "device_type"})


def patch(patches: Patches, devices: Devices, viewers: Viewers) -> None:
    """Redirect `torch.library`."""
    key = _dispatch_key(devices.card)
    library: Any = torch.library
    op = getattr(library, "CustomOpDef", None)  # since torch 2.4
    owners: tuple[tuple[Any, tuple[str, ...]], ...] = (
        (library.Library, ("__init__", "impl", "fallback")),
        (library, ("impl", "custom_op", "register_kernel", "register_autocast")),
        (op, () if op is None else ("register_kernel", "register_autocast")),
    )
    for owner, names in owners:
        for name in names:
            original = vars(owner).get(name)
            if original is not None:
                patches.set(owner, name, _for_the_card(original, key, devices, viewers))


def _dispatch_key(device_type: str) -> str:
    if hasattr(torch._C, "_dispatch_key_for_device"):  # since torch 2.2
        key: str = torch._C._dispatch_key_for_device(device_type)
        return key
    return "PrivateUse1" if torch._C._get_privateuse1_backend_name() == device_type else device_type.upper()


def _for_the_card(original: Callable[..., Any], key: str, devices: Devices, viewers: Viewers) -> Callable[..., Any]:
    names = parameters(original)
    name = next(name for name in names if name in _PARAMETERS)
    position = names.index(name)

    def translated(value: Any) -> Any:
        if isinstance(value, (list, tuple, set, frozenset)):
            return type(value)(translated(one) for one in value)
        if value == cuda.DEVICE_TYPE:
            return devices.type_of(value)
        if isinstance(value, str) and value.endswith(_KEY) and devices.to_card:
            ours = value.removesuffix(_KEY) + key
            return ours if torch._C._parse_dispatch_key(ours) else value
        return value

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not viewers.sees_card():
            if name in kwargs:
                kwargs[name] = translated(kwargs[name])
            elif position < len(args):
                args = (*args[:position], translated(args[position]), *args[position + 1 :])
        return original(*args, **kwargs)

    return call
