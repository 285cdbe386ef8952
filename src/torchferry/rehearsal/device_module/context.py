"""What every family of the simulated device module needs: the device, its card, and how devices are named."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Union

import torch

from torchferry.rehearsal import events

if TYPE_CHECKING:
    from torchferry.rehearsal.native import Native
    from torchferry.rehearsal.profile import Profile

DeviceLike = Union[torch.device, str, int, None]  # noqa: UP007 - evaluated at run time on Python 3.10
"""What the functions of a device module accept as a device."""


class DeviceContext:
    """One simulated device type: its native side, the card that it imitates and its lazy initialisation.

    Plugins initialise a device on its first use, and calls that need no device yet, such as seeding, wait until
    then. That order shows: a process that forks after the first use can no longer use the device.
    """

    def __init__(self, native: Native, profile: Profile) -> None:
        self.native = native
        self.profile = profile
        self.name = native.device_name
        self.label = self.name.upper()
        self.namespace = f"torch.{self.name}"
        self._queued: list[tuple[Callable[[], object], bool]] = []
        self._lock = threading.RLock()
        native.at_first_use(self._run_waiting)

    def is_initialized(self) -> bool:
        """Whether the device was used in this process and still can be."""
        return self.native.is_initialized() and not self.native.in_bad_fork()

    def initialize(self) -> None:
        """Initialise the device and run what waited for it.

        Raises:
            RuntimeError: the process was forked after the device was used, as on the card.
        """
        if self.native.in_bad_fork():
            events.record("fork", "fork", "the device was used after a fork of a process that had used it")
            raise RuntimeError(
                f"Cannot re-initialize {self.label} in forked subprocess. To use {self.label} with multiprocessing, "
                "you must use the 'spawn' start method"
            )
        self.native.initialise()
        self._run_waiting()

    def _run_waiting(self) -> None:
        """Run what waited for the device, whoever uses it first: moving a tensor is a use that passes by here."""
        with self._lock:
            waiting, self._queued = self._queued, []
        for call, _ in waiting:
            call()

    def when_initialized(self, call: Callable[[], object], *, seeds_all: bool = False) -> None:
        """Run `call` now, or at the first use of the device; `seeds_all` drops earlier seeds that still wait."""
        if self.is_initialized():
            self.initialize()
            call()
            return
        with self._lock:
            if seeds_all:
                self._queued = [entry for entry in self._queued if not entry[1]]
            self._queued.append((call, seeds_all))

    def index(self, device: DeviceLike = None, *, optional: bool = True) -> int:
        """Return the index that `device` means; None is the current device where `optional`.

        Raises:
            ValueError: `device` is of another type, or has no index where one is needed.
        """
        if isinstance(device, bool) or not isinstance(device, (torch.device, str, int, type(None))):
            raise events.refusal(
                ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
            )
        if isinstance(device, int):
            return device
        if isinstance(device, str):
            device = torch.device(device)
        if device is not None:
            if device.type != self.name:
                raise events.refusal(ValueError(f"Expected a {self.name} device, but got: {device}"))
            if device.index is not None:
                return device.index
        if not optional:
            raise events.refusal(
                ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
            )
        return self.native.current_device()

    def existing(self, device: DeviceLike = None) -> int:
        """Return the index of `device`, which must exist; a negative number is the current device.

        Raises:
            AssertionError: there is no such device.
        """
        index = self.index(device)
        if index < 0:
            return self.native.current_device()
        if index >= self.native.device_count():
            raise events.refusal(AssertionError("Invalid device id"))
        return index
