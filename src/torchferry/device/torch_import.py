"""torch itself, or an error that says what to do without it."""

from __future__ import annotations

try:
    import torch
except ImportError as missing:
    raise ImportError(
        f"DeviceManager needs torch, which cannot be imported: {missing}; "
        "install the torch that the accelerator's plugin asks for (the CPU build for most of them)"
    ) from missing

__all__ = ["torch"]
