"""Values of the device on the CPU, without waiting for the device where it can copy by itself."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import torch
from torch import Tensor

_PINNED: dict[str, bool] = {}
"""For each type of device, whether it copies into pinned memory while the program goes on; found at the first use."""

_LOCK = threading.Lock()


class Fetched:
    """A copy on the CPU, which may still be on its way."""

    def __init__(self, tensor: Tensor, event: Any = None) -> None:
        self._tensor = tensor
        self._event = event

    @property
    def dtype(self) -> torch.dtype:
        """Of the values; known before they have arrived."""
        return self._tensor.dtype

    @property
    def tensor(self) -> Tensor:
        """The values; waits until they are there."""
        if self._event is not None:
            self._event.synchronize()
            self._event = None
        return self._tensor


def fetch(tensor: Tensor) -> Fetched:
    """Copy a tensor to the CPU, with its strides where it has no gaps. What the device does later changes nothing."""
    tensor = tensor.detach()
    if tensor.is_cpu:
        return Fetched(tensor.clone())
    kind = tensor.device.type
    if _PINNED.get(kind, True):
        try:
            return _fetch_pinned(tensor, kind)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError, AssertionError):
            with _LOCK:
                _PINNED[kind] = False
    target = torch.empty_like(tensor, device="cpu")
    target.copy_(tensor)
    return Fetched(target)


def _fetch_pinned(tensor: Tensor, kind: str) -> Fetched:
    module = torch.get_device_module(kind)
    target = torch.empty_like(tensor, device="cpu", pin_memory=True)
    its_device = getattr(module, "device", None)
    with contextlib.nullcontext() if its_device is None else its_device(tensor.device):
        target.copy_(tensor, non_blocking=True)
        event = module.Event()
        event.record()  # on the stream of the tensor's device, which the copy runs on; another may be the current one
    return Fetched(target, event)
