"""The dispatcher: operators that a program registers for CUDA, and calls that reach CUDA past Python.

What the program, or a library that sees a CUDA device, registers for CUDA is registered for the card; torch's own
registrations stay where they are.

An operator that is asked for a tensor on CUDA by TorchScript, C++ or a name that a program took before the redirect is
run again for the card. On a torch without CUDA nothing else is registered there; a torch that was built with CUDA keeps
its own operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.library
from torch.library import Library

from torchferry.backends import cuda
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import Devices, parameter_names
from torchferry.shim.patch_factories import ATEN, device_selecting_operators
from torchferry.shim.patches import Patches

_KEY = "CUDA"
"""How the dispatch keys of CUDA end: `CUDA`, `AutogradCUDA`, `AutocastCUDA`."""

_PARAMETERS = frozenset({"dispatch_key", "types", "device_types", "device_type"})


def patch_registrations(patches: Patches, devices: Devices, policy: CallerPolicy) -> None:
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
                patches.set(owner, name, _for_the_card(original, key, devices, policy))


def _dispatch_key(device_type: str) -> str:
    if hasattr(torch._C, "_dispatch_key_for_device"):  # since torch 2.2
        key: str = torch._C._dispatch_key_for_device(device_type)
        return key
    return "PrivateUse1" if torch._C._get_privateuse1_backend_name() == device_type else device_type.upper()


def _for_the_card(original: Callable[..., Any], key: str, devices: Devices, policy: CallerPolicy) -> Callable[..., Any]:
    names = parameter_names(original)
    name = next(name for name in names if name in _PARAMETERS)
    position = names.index(name)

    def translated(value: Any) -> Any:
        if isinstance(value, (list, tuple, set, frozenset)):
            return type(value)(translated(part) for part in value)
        if value == cuda.DEVICE_TYPE:
            return devices.type_of(value)
        if isinstance(value, str) and value.endswith(_KEY) and devices.to_card:
            card_key = value.removesuffix(_KEY) + key
            return card_key if torch._C._parse_dispatch_key(card_key) else value
        return value

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not policy.sees_card():
            if name in kwargs:
                kwargs[name] = translated(kwargs[name])
            elif position < len(args):
                args = (*args[:position], translated(args[position]), *args[position + 1 :])
        return original(*args, **kwargs)

    return call


KEYS = ("CUDA", "SparseCUDA", "QuantizedCUDA")


def patch_fallback(patches: Patches, devices: Devices) -> None:
    """Register what runs them again, where torch has no CUDA of its own.

    There no tensor is on CUDA, so an operator comes to it by a device that it is told; one that is made of others, by
    what it is made of. To register for all operators at once would take longer than all other patches together.
    """
    if torch.backends.cuda.is_built.__module__ == "torch.backends.cuda" and torch._C._has_cuda:
        return
    again = {name: _run_on_card(name, devices) for name in sorted(device_selecting_operators())}
    served = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    for key in KEYS:
        library: Any = Library(ATEN, "IMPL", key)  # type: ignore[no-untyped-call]
        patches.at_end(library._destroy)
        for name, function in again.items():
            if not served(f"{ATEN}::{name}", key):
                library.impl(name, function)


def _run_on_card(name: str, devices: Devices) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")

    def of(value: Any) -> Any:
        return devices.of(value) if isinstance(value, torch.device) else value

    def again(*args: Any, **kwargs: Any) -> Any:
        operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
        return operator(*(of(argument) for argument in args), **{name: of(value) for name, value in kwargs.items()})

    return again
