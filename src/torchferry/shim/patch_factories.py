"""Functions and operators that make tensors: their `device` argument.

Which functions take one is asked of torch: its own list of device constructors, the operators that select a device, and
those that make a tensor like another and have a parameter `device`. TorchScript is told which builtin each patched
function is, so that scripts compile as before.

An operator that is asked for a tensor on CUDA past Python (by TorchScript, C++ or a name that a program took before
the redirect) is run again for the card. On a torch without CUDA nothing else is registered there; a torch that was
built with CUDA keeps its own operators. What the program, or a library that sees a CUDA device, registers for CUDA is
registered for the card; torch's own registrations stay where they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
import torch.library
from torch.jit import _builtins
from torch.library import Library
from torch.utils import _device

from torchferry.backends import cuda
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import Devices, parameter_names, with_device
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


def _is_dispatch_key(name: str) -> bool:
    try:
        torch._C._dispatch_key_parse(name)
    except RuntimeError:
        return False
    return True


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
            return card_key if _is_dispatch_key(card_key) else value
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

    There no tensor is on CUDA, so an operator reaches it by a device that it is told; one that is made of others, by
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
