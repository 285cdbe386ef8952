"""Automatic mixed precision: autocast and the scaling of the loss, torch's own or the plugin's."""

from __future__ import annotations

from functools import lru_cache, partialmethod
from typing import Any

from torchferry.core.messages import say
from torchferry.device.facts import DeviceFacts
from torchferry.device.failures import NotOnThisDeviceError
from torchferry.device.names import DescribedDevice, find, required, resolve
from torchferry.device.torch_import import torch

HALVES = (torch.float16, torch.bfloat16)


def mixed_precision(place: DescribedDevice, dtype: torch.dtype, enabled: bool) -> Any:
    """Return a context in which operators choose `dtype` where that is safe; without effect for float32.

    Raises:
        NotOnThisDeviceError: neither torch nor the plugin has autocast for the device.
    """
    options: dict[str, Any] = {"enabled": False}
    if enabled and dtype in HALVES:
        options = {"enabled": True, "dtype": dtype}
    if place.facts.autocast is not False:
        try:
            return torch.autocast(place.device.type, **options)
        except RuntimeError:
            if not place.facts.plugin or find(place.facts, "amp.autocast") is None:
                raise
            # this torch is older than its autocast for plugins, which have their own
    return required(place.facts, "amp.autocast")(**options)


def loss_scaler(place: DescribedDevice, enabled: bool, options: dict[str, Any]) -> Any:
    """Return what scales the loss, so that small gradients are no zeros in float16.

    Raises:
        NotOnThisDeviceError: there is none for the device.
    """
    of_plugin = scaler_class(place.facts) if place.facts.plugin else None
    of_torch = getattr(getattr(torch, "amp", None), "GradScaler", None)  # since torch 2.3, for every device
    if of_plugin is None and of_torch is not None and place.facts.autocast is not False:
        return of_torch(place.device.type, enabled=enabled, **options)
    if place.device.type == "cpu" and enabled:
        raise NotOnThisDeviceError(say("torch {version} has no gradient scaler for the CPU", version=torch.__version__))
    scaler = required(place.facts, "amp.GradScaler") if of_plugin is None else of_plugin
    return scaler(enabled=enabled, **options)


def scaler_class(facts: DeviceFacts) -> Any:
    """Return the replacement of `torch.cuda.amp.GradScaler`; None where there is nothing.

    That is a class of torch where the plugin's own has faults that torch's has not, and this torch has one.
    """
    called = facts.name_of("amp.GradScaler").called
    of_torch = resolve(called) if called else None
    return find(facts, "amp.GradScaler") if of_torch is None else _for_device(of_torch, facts.device_type)


@lru_cache(maxsize=8)
def _for_device(of_torch: Any, device_type: str) -> Any:
    """Return a class of torch that is made without naming the device, as those of `torch.cuda.amp` are."""
    own = {"__init__": partialmethod(of_torch.__init__, device_type), "__module__": __name__}
    return type(of_torch.__name__, (of_torch,), own)
