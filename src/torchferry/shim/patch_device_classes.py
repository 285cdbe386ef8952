"""Classes of torch whose first argument is a device: generators, streams, events.

torch's own class cannot be changed, so a class stands in its place that makes the objects on the card and shows their
device to the program; what torch or the plugin makes is an instance of it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchferry.shim.caller_policy import Viewers
from torchferry.shim.devices import Devices
from torchferry.shim.patch_tensors import shown_device


def made_on_card(original: Any, devices: Devices, viewers: Viewers, moved: Callable[[], None] | None = None) -> type:
    """Return the class that stands in place of `original`.

    Args:
        original: The class of torch.
        devices: Those of the card.
        viewers: Who sees what.
        moved: Called when an object is asked for on CUDA, before it is made on the card; may raise.
    """

    def place(device: Any) -> Any:
        found = devices.of(device)
        if found is not device and moved is not None:
            moved()
        return found

    class Meta(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

    class Made(original, metaclass=Meta):  # type: ignore[misc]
        __doc__ = original.__doc__

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 or (args and isinstance(args[0], (str, torch.device))):  # else numbers of a stream
                args = (place(args[0]), *args[1:])
            elif "device" in kwargs:
                kwargs["device"] = place(kwargs["device"])
            return original.__new__(cls, *args, **kwargs)

        device = property(shown_device(original.device.__get__, devices, viewers))

    Made.__module__, Made.__name__, Made.__qualname__ = torch.__name__, original.__name__, original.__qualname__
    return Made
