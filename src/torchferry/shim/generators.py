"""`torch.Generator`: made on the card where the program asks for one of CUDA."""

from __future__ import annotations

import torch

from torchferry.core.messages import say
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.patch_device_classes import made_on_card
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver


def patch(patches: Patches, resolver: Resolver, viewers: Viewers) -> None:
    """Redirect `torch.Generator`; what torch makes itself stays an instance of it."""

    def moved() -> None:
        if resolver.target.backend.DEVICE_GENERATOR is False:
            raise NotImplementedError(_no_generator(resolver))

    patches.set(torch, "Generator", made_on_card(torch.Generator, resolver.devices, viewers, moved))


def _no_generator(resolver: Resolver) -> str:
    text = say(
        "{target} has no generator of its own; use one on the CPU, or seed the device", target=resolver.target.title
    )
    return f"torchferry: {text}"
