"""`torch.set_default_tensor_type("torch.cuda.FloatTensor")`: the older way to say a default device and dtype."""

from __future__ import annotations

import functools
from typing import Any

import torch

from torchferry.core.messages import say
from torchferry.shim.devices import Devices
from torchferry.shim.patch_tensors import legacy_dtype
from torchferry.shim.patches import Patches
from torchferry.shim.warned import warn_user


def patch(patches: Patches, devices: Devices) -> None:
    """Redirect `torch.set_default_tensor_type`; torch has such types for CUDA alone."""
    original = torch.set_default_tensor_type
    on_card = False

    @functools.wraps(original)
    def set_default_tensor_type(t: Any) -> None:
        nonlocal on_card
        dtype = legacy_dtype(t) if devices.to_card else None
        if dtype is not None and dtype.is_floating_point:
            torch.set_default_dtype(dtype)
            torch.set_default_device(devices.card)
            if not on_card:
                on_card = True
                warn_user(say("`torch.Tensor(...)` without a device goes on to make tensors on the CPU"))
            return
        if on_card:
            on_card = False
            torch.set_default_device(None)
        original(t)

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)
