"""What reaches CUDA past Python: TorchScript, C++ and names that a program took before the redirect.

An operator that is asked for a tensor on CUDA is run again for the card. On a torch without CUDA nothing else is
registered there; a torch that was built with CUDA keeps its own operators.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.library import Library

from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches

KEYS = ("CUDA", "SparseCUDA", "QuantizedCUDA")


def patch(patches: Patches, devices: Devices) -> None:
    """Register the fallback, where torch has no CUDA of its own."""
    if torch.backends.cuda.is_built.__module__ == "torch.backends.cuda" and torch._C._has_cuda:
        return
    for key in KEYS:
        library: Any = Library("_", "IMPL", key)  # type: ignore[no-untyped-call]
        library.fallback(_again(devices), key)
        patches.at_end(library._destroy)


def _again(devices: Devices) -> Any:
    def of(value: Any) -> Any:
        return devices.of(value) if isinstance(value, torch.device) else value

    def again(operator: Any, *args: Any, **kwargs: Any) -> Any:
        return operator(*(of(one) for one in args), **{name: of(value) for name, value in kwargs.items()})

    return again
