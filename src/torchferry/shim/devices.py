"""Device arguments: what the program says of `cuda`, as the card's own device.

Only whole device strings are known (`cuda`, `cuda:1`) and only where a device is asked for; a file name that has the
word in it is never looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torchferry.backends import cuda
from torchferry.backends.base import Backend

if TYPE_CHECKING:
    from torchferry.shim.call_sites import Sites

MOST = 64
"""Devices of one machine that a device string may number."""


class Devices:
    """The devices of the card and the names that the program has for them.

    Attributes:
        card: The card's device type.
        to_card: Device of CUDA, as text or as a `torch.device`, to the card's `torch.device`. Empty once the redirect
            is over, so that what still holds a patched function gets what it asked for.
        to_cuda: The card's devices to those that the program sees.
        sites: Where the lines are noted at which a device is translated; None for nowhere.
    """

    def __init__(self, backend: type[Backend], sites: Sites | None = None) -> None:
        self.card = backend.DEVICE_TYPE
        self.sites = sites
        self.to_card: dict[Any, torch.device] = {}
        self.to_cuda: dict[torch.device, torch.device] = {}
        self.numbers = backend.INTEGER_DEVICE is not True and torch._C._get_privateuse1_backend_name() != self.card
        """Whether a bare number has to be translated: torch takes it for the plugin's device where it is one."""

        for index in (None, *range(MOST)):
            suffix = "" if index is None else f":{index}"
            card, cuda_ = torch.device(self.card + suffix), torch.device(cuda.DEVICE_TYPE + suffix)
            self.to_card[str(cuda_)] = self.to_card[cuda_] = card
            self.to_cuda[card] = cuda_

    def of(self, device: Any) -> Any:
        """Return the card's device for one of CUDA; anything else as it is."""
        kind = device.__class__
        if kind is str or kind is torch.device:
            found = self.to_card.get(device)
            if found is None:
                return device
            if self.sites is not None:
                self.sites.note(cuda.DEVICE_TYPE)
            return found
        if kind is int and self.numbers and self.to_card:
            return torch.device(self.card, device)
        if kind is list or kind is tuple:
            return kind(self.of(one) for one in device)
        return device

    def place(self, device: Any) -> Any:
        """Return where `.cuda(device)` moves to: the current device of the card, or one by its number or name."""
        if device is None:
            return torch.device(self.card)
        return torch.device(self.card, device) if isinstance(device, int) else self.of(device)

    def type_of(self, device_type: Any) -> Any:
        """Return the card's device type, as text, for CUDA's; for parameters that take a type and no index."""
        if device_type != cuda.DEVICE_TYPE or not self.to_card:
            return device_type
        if self.sites is not None:
            self.sites.note(cuda.DEVICE_TYPE)
        return self.card

    def end(self) -> None:
        """Translate nothing from now on."""
        self.to_card.clear()
        self.to_cuda.clear()
