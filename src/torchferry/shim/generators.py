"""`torch.Generator`: made on the card where the program asks for one of CUDA."""

from __future__ import annotations

from typing import Any

import torch

from torchferry.core.messages import say
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver
from torchferry.shim.tensors import shown_device
from torchferry.shim.viewers import Viewers


def patch(patches: Patches, resolver: Resolver, viewers: Viewers) -> None:
    """Redirect `torch.Generator`; what torch makes itself stays an instance of it."""
    patches.set(torch, "Generator", _generator(torch.Generator, resolver, viewers))


def _generator(original: Any, resolver: Resolver, viewers: Viewers) -> Any:
    devices = resolver.devices

    class Meta(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

    class Generator(original, metaclass=Meta):  # type: ignore[misc]
        __doc__ = original.__doc__

        def __new__(cls, device: Any = "cpu") -> Any:
            place = devices.of(device)
            if place is not device and resolver.target.backend.DEVICE_GENERATOR is False:
                raise NotImplementedError(_no_generator(resolver))
            return original.__new__(cls, device=place)

        device = property(shown_device(original.device.__get__, devices, viewers))

    Generator.__module__, Generator.__qualname__ = torch.__name__, original.__qualname__
    return Generator


def _no_generator(resolver: Resolver) -> str:
    text = say(
        "{target} has no generator of its own; use one on the CPU, or seed the device", target=resolver.target.title
    )
    return f"torchferry: {text}"
