"""What must be as it was for a forward to run again: random states, buffers, autocast. Nothing here waits."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class RandomState:
    """The random states of Python, numpy, the CPU and the devices that a program uses."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._python = random.getstate()
        self._numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
        self._cpu = torch.get_rng_state()
        self._devices = [(device, _module(device).get_rng_state(device)) for device in devices]

    def restore(self) -> None:
        """Set the states again."""
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        torch.set_rng_state(self._cpu)
        for device, state in self._devices:
            _module(device).set_rng_state(state, device)


def _module(device: torch.device) -> Any:
    return torch.get_device_module(device.type)


def devices_of(module: nn.Module, args: Sequence[Any]) -> list[torch.device]:
    """Return the devices, beside the CPU, of a module's first parameter and of its arguments."""
    found = [parameter.device for parameter in _first(module)]
    found += [value.device for value in args if isinstance(value, Tensor)]
    return [device for device in dict.fromkeys(found) if device.type not in {"cpu", "meta"}]


def _first(module: nn.Module) -> Iterator[Tensor]:
    parameter = next(module.parameters(), None)
    if parameter is not None:
        yield parameter


def version(tensor: Tensor) -> int:
    """Return how often a tensor was written to; 0 for tensors of inference mode, which do not count it."""
    return 0 if tensor.is_inference() else tensor._version


class Buffers:
    """Copies of a module's buffers as they were, made anew for those alone that have changed since the last time.

    A mask that never changes is copied once.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[Tensor, int, Tensor]] = {}

    def keep(self, module: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Return each buffer with a copy of its values now."""
        kept = []
        for buffer in module.buffers():
            held = self._held.get(id(buffer))
            if held is None or held[0] is not buffer or held[1] != version(buffer) or buffer.is_inference():
                held = self._held[id(buffer)] = (buffer, version(buffer), buffer.detach().clone())
            kept.append((buffer, held[2]))
        return kept


@contextlib.contextmanager
def buffers_as(kept: Sequence[tuple[Tensor, Tensor]]) -> Iterator[None]:
    """Give buffers their old values within the context, and what they have now after it."""
    now = [buffer.detach().clone() for buffer, _ in kept]
    try:
        with torch.no_grad():
            for buffer, old in kept:
                buffer.copy_(old)
        yield
    finally:
        with torch.no_grad():
            for (buffer, _), value in zip(kept, now, strict=True):
                buffer.copy_(value)


class Autocast:
    """The state of autocast for a type of device."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._states = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in dict.fromkeys([*kinds, "cpu"])
            if torch.amp.is_autocast_available(kind)
        ]

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Give the same state within the context."""
        with contextlib.ExitStack() as stack:
            for kind, enabled, dtype in self._states:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=False))
            yield
