"""Values of the device on the CPU, without waiting for the device where it can copy by itself.

The small tensors of a call cross in one buffer for each dtype, and one event is behind them all. Each is copied by
itself: nothing but a plain copy of the device stands between its values and what is compared.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

_PINNED: dict[str, bool] = {}
"""For each type of device, whether it copies into pinned memory while the program goes on; found at the first use."""

_LOCK = threading.Lock()

_ALIGNED = 64
"""Bytes that places in a buffer are aligned to, as those of tensors of their own are: the CPU's kernels may round
otherwise where they are not."""

_LARGE = 1 << 18
"""Bytes from which on a tensor has a buffer of its own: it costs more to copy than to ask for, and memory of many sizes
is used again by the next call, where that of their sum would be fetched from the system each time."""

_FAILURES = (RuntimeError, NotImplementedError, AttributeError, TypeError, AssertionError)

Key = tuple[torch.dtype, bool]
"""What has a buffer: a dtype, and whether it is pinned."""


class Fetched:
    """A copy on the CPU, which may still be on its way.

    Attributes:
        dtype: Of the values; known before they have arrived.
        buffer: What it is a part of, maybe with others of its call; None where it lies alone.
        begin: Where it begins there.
    """

    __slots__ = ("_crossing", "_size", "_stride", "_tensor", "begin", "buffer", "dtype")

    def __init__(self, tensor: Tensor | None, dtype: torch.dtype | None = None) -> None:
        self._tensor = tensor
        self._crossing: Crossing | None = None
        self._size: tuple[int, ...] = ()
        self._stride: tuple[int, ...] = ()
        if dtype is None:
            assert tensor is not None
            dtype = tensor.dtype
        self.dtype = dtype
        self.buffer: Tensor | None = None
        self.begin = 0

    def wait(self) -> None:
        """Return when the values are there."""
        if self._crossing is not None:
            self._crossing.wait()
            self._crossing = None

    @property
    def tensor(self) -> Tensor:
        """The values; waits until they are there."""
        if self._crossing is not None:
            self.wait()
        if self._tensor is None:
            assert self.buffer is not None
            self._tensor = self.buffer.as_strided(self._size, self._stride, self.begin)
        return self._tensor


_Added = tuple[Tensor, Fetched, bool, torch.device]
"""A tensor, where its copy will be, whether it is contiguous, and its device."""


class Crossing:
    """The tensors of one call on their way to the CPU.

    Those that were added cross with `go`, and `left` marks where the device has sent them: the call itself may lie
    between, since a device works in the order in which it was asked.
    """

    __slots__ = ("_added", "_events", "_sent_by")

    def __init__(self) -> None:
        self._added: list[_Added] = []
        self._sent_by: dict[torch.device, None] = {}
        self._events: list[Any] = []

    def add(self, tensor: Tensor, flat: bool = False) -> Fetched:
        """Have a tensor copied, with its strides where it has no gaps.

        Args:
            tensor: What the device does to it after `go` changes nothing.
            flat: Whether it is contiguous, and the copy is to be read as numbers in a row.
        """
        found = Fetched(None, tensor.dtype)
        found._crossing = self
        if flat:
            found._size, found._stride = (tensor.numel(),), (1,)
        self._added.append((tensor, found, flat or tensor.is_contiguous(), tensor.device))
        return found

    def go(self) -> None:
        """Copy what was added."""
        added, self._added = self._added, []
        if not added:
            return
        devices = {device: None for _, _, _, device in added}
        for device in devices:
            if device not in self._sent_by and sends(device):
                self._sent_by[device] = None
        try:
            self._copy(added)
        except _FAILURES:
            self.left()
            self.wait()  # for what crossed before: from now on nothing is behind it
            for device in devices.keys() & self._sent_by.keys():
                with _LOCK:
                    _PINNED[device.type] = False
                del self._sent_by[device]
            self._copy(added)

    def left(self) -> None:
        """Say that no more is added: what `wait` waits for is behind all that was sent."""
        for device in self._sent_by:
            self._events.append(_event(device))

    def wait(self) -> None:
        """Return when all copies are there."""
        for event in self._events:
            event.synchronize()

    def _copy(self, added: list[_Added]) -> None:
        sent_by = self._sent_by
        sizes: dict[Key, int] = {}
        together: list[tuple[Tensor, Fetched, Key]] = []
        for tensor, fetched, contiguous, device in added:
            pinned = device in sent_by
            count, width = tensor.numel(), tensor.element_size()
            if not contiguous or count * width > _LARGE:
                target = torch.empty_like(tensor, device="cpu", pin_memory=pinned)
                target.copy_(tensor, non_blocking=pinned)
                fetched._tensor = target.as_strided(fetched._size, fetched._stride) if fetched._size else target
                continue
            key = fetched.dtype, pinned
            begin = fetched.begin = sizes.get(key, 0)
            step = _ALIGNED // width
            sizes[key] = begin + -(-count // step) * step
            together.append((tensor, fetched, key))
        buffers = {key: torch.empty(size, dtype=key[0], pin_memory=key[1]) for key, size in sizes.items()}
        for tensor, fetched, key in together:
            buffer = fetched.buffer = buffers[key]
            target = buffer.as_strided(tensor.shape, tensor.stride(), fetched.begin)
            target.copy_(tensor, non_blocking=key[1])
            if not fetched._size:
                fetched._tensor = target


def fetch(tensor: Tensor) -> Fetched:
    """Copy a tensor to the CPU, with its strides where it has no gaps. What the device does later changes nothing."""
    crossing = Crossing()
    found = crossing.add(tensor.detach())
    crossing.go()
    crossing.left()
    return found


def sends(device: torch.device) -> bool:
    """Whether a device copies into pinned memory while the program goes on."""
    kind = device.type
    found = _PINNED.get(kind)
    if found is None:
        found = False
        if kind != "cpu":
            try:
                torch.empty(1, pin_memory=True)
                _event(device)
                found = True
            except _FAILURES:
                found = False
        with _LOCK:
            _PINNED[kind] = found
    return found


def _event(device: torch.device) -> Any:
    """Return an event behind what a device was asked for, on the stream that copies of it run on.

    That is the current stream of the tensors' device; another device may be the current one.
    """
    module = torch.get_device_module(device.type)
    event = module.Event()
    its_device = getattr(module, "device", None)
    current = getattr(module, "current_device", None)
    if its_device is None or (current is not None and current() == device.index):
        event.record()
    else:
        with its_device(device):
            event.record()
    return event
