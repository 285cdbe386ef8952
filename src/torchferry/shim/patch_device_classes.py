"""Classes of torch whose first argument is a device: `torch.Generator`, `torch.Stream`, `torch.Event`.

torch's own class cannot be changed, so a class stands in its place that makes the objects on the card and shows their
device to the program; what torch or the plugin makes is an instance of it as well. Streams and events also have their
handle under CUDA's name.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from torchferry.backends import cuda
from torchferry.core.messages import say
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import Devices
from torchferry.shim.patch_tensors import shown_device
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import NotThereError, Resolver, find


def proxy_class(
    original: Any, devices: Devices, policy: CallerPolicy, before_move: Callable[[], None] | None = None
) -> type:
    """Return the class that stands in place of `original`.

    Args:
        original: The class of torch.
        devices: Those of the card.
        policy: Who sees what.
        before_move: Called when an object is asked for on CUDA, before it is made on the card; may raise.
    """

    def place(device: Any) -> Any:
        card_device = devices.of(device)
        if card_device is not device and before_move is not None:
            before_move()
        return card_device

    class Meta(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

    class Proxy(original, metaclass=Meta):  # type: ignore[misc]
        __doc__ = original.__doc__

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 or (args and isinstance(args[0], (str, torch.device))):  # else numbers of a stream
                args = (place(args[0]), *args[1:])
            elif "device" in kwargs:
                kwargs["device"] = place(kwargs["device"])
            return original.__new__(cls, *args, **kwargs)

        device = property(shown_device(original.device.__get__, devices, policy))

    Proxy.__module__, Proxy.__name__, Proxy.__qualname__ = torch.__name__, original.__name__, original.__qualname__
    return Proxy


_CAN_CHANGE = 1 << 9
"""CPython's Py_TPFLAGS_HEAPTYPE: a class of C++ alone takes no new attributes."""

_PRIORITIES = "priority_range"


def patch_streams(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect the classes of torch, and what the plugin's own show of themselves."""
    for name, handle in (("Stream", "stream"), ("Event", "event")):
        _count_as(name, resolver)
        original = getattr(torch, name, None)
        row = resolver.target.api(f"{cuda.NAMESPACE}.{name}")
        refused = resolver.refusal(row.name, row, None) if row.status == "missing" else None
        if hasattr(original, "device"):  # since torch 2.4 a class that every device has
            patches.set(torch, name, proxy_class(original, resolver.devices, policy, refused))
        if row.use:
            _show(patches, resolver, policy, row.use, handle)


def _count_as(name: str, resolver: Resolver) -> None:
    """Let torch's abstract class (torch 2.3 to 2.5) count the card's as its own, as the tracer asks of CUDA's."""
    abstract = getattr(sys.modules.get("torch._streambase"), f"_{name}Base", None)
    stands = getattr(torch.cuda, name)
    if isinstance(abstract, ABCMeta) and isinstance(stands, type):
        abstract.register(stands)


def _show(patches: Patches, resolver: Resolver, policy: CallerPolicy, use: str, handle: str) -> None:
    devices = resolver.devices
    try:
        kind = find(use)
    except NotThereError:
        return
    if not isinstance(kind, type) or not kind.__flags__ & _CAN_CHANGE:
        return
    get = getattr(kind, "device", None)
    if get is not None:
        patches.set(kind, "device", property(shown_device(get.__get__, devices, policy)))
    patches.set(kind, f"{cuda.DEVICE_TYPE}_{handle}", property(_handle(f"{devices.card}_{handle}")))
    if handle == "stream" and not hasattr(kind, _PRIORITIES):
        patches.set(kind, _PRIORITIES, staticmethod(_no_priorities(resolver, use)))


def _no_priorities(resolver: Resolver, use: str) -> Callable[[], NoReturn]:
    def priority_range() -> NoReturn:
        text = say(
            "`{name}` would be `{use}` on {target}, which the installed plugin does not have;"
            " streams without a priority are there, and so is 0, the usual one",
            name=f"{cuda.NAMESPACE}.Stream.{_PRIORITIES}",
            use=f"{use}.{_PRIORITIES}",
            target=resolver.target.title,
        )
        raise NotImplementedError(f"torchferry: {text}")

    return priority_range


def _handle(name: str) -> Callable[[Any], Any]:
    def handle(self: Any) -> Any:
        return getattr(self, name)

    return handle


def patch_generator(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect `torch.Generator`; what torch makes itself stays an instance of it."""

    def refuse_without_generator() -> None:
        if resolver.target.backend.DEVICE_GENERATOR is False:
            raise NotImplementedError(_no_generator(resolver))

    patches.set(torch, "Generator", proxy_class(torch.Generator, resolver.devices, policy, refuse_without_generator))


def _no_generator(resolver: Resolver) -> str:
    text = say(
        "{target} has no generator of its own; use one on the CPU, or seed the device", target=resolver.target.title
    )
    return f"torchferry: {text}"
