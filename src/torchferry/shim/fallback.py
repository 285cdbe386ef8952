"""What reaches CUDA past Python: TorchScript, C++ and names that a program took before the redirect.

An operator that is asked for a tensor on CUDA is run again for the card. On a torch without CUDA nothing else is
registered there; a torch that was built with CUDA keeps its own operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library

from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches
from torchferry.shim.selecting import NAMESPACE, operators

KEYS = ("CUDA", "SparseCUDA", "QuantizedCUDA")


def patch(patches: Patches, devices: Devices) -> None:
    """Register what runs them again, where torch has no CUDA of its own.

    There no tensor is on CUDA, so an operator comes to it by a device that it is told; one that is made of others, by
    what it is made of. To register for all operators at once would take longer than all other patches together.
    """
    if torch.backends.cuda.is_built.__module__ == "torch.backends.cuda" and torch._C._has_cuda:
        return
    again = {name: _again(name, devices) for name in sorted(operators())}
    served = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    for key in KEYS:
        library: Any = Library(NAMESPACE, "IMPL", key)  # type: ignore[no-untyped-call]
        patches.at_end(library._destroy)
        for name, function in again.items():
            if not served(f"{NAMESPACE}::{name}", key):
                library.impl(name, function)


def _again(name: str, devices: Devices) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")

    def of(value: Any) -> Any:
        return devices.of(value) if isinstance(value, torch.device) else value

    def again(*args: Any, **kwargs: Any) -> Any:
        operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
        return operator(*(of(one) for one in args), **{name: of(value) for name, value in kwargs.items()})

    return again
