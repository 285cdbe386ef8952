"""Streams and events: `torch.Stream("cuda")`, the device that they show, and their handle under CUDA's name."""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from torchferry.backends import cuda
from torchferry.core.messages import say
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.patch_device_classes import made_on_card
from torchferry.shim.patch_tensors import shown_device
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import NotThereError, Resolver, find

_CAN_CHANGE = 1 << 9
"""CPython's Py_TPFLAGS_HEAPTYPE: a class of C++ alone takes no new attributes."""

_PRIORITIES = "priority_range"


def patch(patches: Patches, resolver: Resolver, viewers: Viewers) -> None:
    """Redirect the classes of torch, and what the plugin's own show of themselves."""
    for name, handle in (("Stream", "stream"), ("Event", "event")):
        _count_as(name, resolver)
        original = getattr(torch, name, None)
        row = resolver.target.api(f"{cuda.NAMESPACE}.{name}")
        refused = resolver.refusal(row.name, row, None) if row.status == "missing" else None
        if hasattr(original, "device"):  # since torch 2.4 a class that every device has
            patches.set(torch, name, made_on_card(original, resolver.devices, viewers, refused))
        if row.use:
            _show(patches, resolver, viewers, row.use, handle)


def _count_as(name: str, resolver: Resolver) -> None:
    """Let torch's abstract class (torch 2.3 to 2.5) count the card's as its own, as the tracer asks of CUDA's."""
    abstract = getattr(sys.modules.get("torch._streambase"), f"_{name}Base", None)
    stands = getattr(torch.cuda, name)
    if isinstance(abstract, ABCMeta) and isinstance(stands, type):
        abstract.register(stands)


def _show(patches: Patches, resolver: Resolver, viewers: Viewers, use: str, handle: str) -> None:
    devices = resolver.devices
    try:
        kind = find(use)
    except NotThereError:
        return
    if not isinstance(kind, type) or not kind.__flags__ & _CAN_CHANGE:
        return
    get = getattr(kind, "device", None)
    if get is not None:
        patches.set(kind, "device", property(shown_device(get.__get__, devices, viewers)))
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
