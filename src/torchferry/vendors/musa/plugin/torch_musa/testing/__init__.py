"""Helpers of torch_musa's tests, of which build scripts ask for the card. Source: torch_musa/core/_utils.py, 2.7.1."""

import os as _os

import torch as _torch

from torchferry.rehearsal import facade_support as _facade_support

__all__ = ["get_musa_arch"]
__getattr__ = _facade_support.missing(__name__)


def get_musa_arch() -> int:
    """Return the generation of the first device, such as 22 (behind `mp_`); `TORCH_MUSA_ARCH` overrides it."""
    chosen = _os.environ.get("TORCH_MUSA_ARCH")
    if chosen is not None:
        return int(chosen)
    major, minor = _torch.musa.get_device_capability(0)
    return int(major) * 10 + int(minor)
