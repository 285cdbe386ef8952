"""The errors and the warning of the device manager, and how a warning finds the user's line."""

from __future__ import annotations

import sys
import warnings

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Bilingual, Message


class DeviceError(TorchferryError, RuntimeError):
    """Something about the device that the user can mend; its text is in the user's language."""

    def __str__(self) -> str:
        return "; ".join(self.lines())


class DeviceNotAvailableError(DeviceError):
    """The device that was asked for is not there, or none is."""


class NotOnThisDeviceError(DeviceError):
    """The device has nothing of this kind; the text says what does instead."""


class DeviceWarning(UserWarning):
    """Something was chosen or left out that the user must see."""


def plain(text: str | Bilingual) -> Message:
    """Return a message of a text that needs no translation, or has its own."""
    return Message("{text}", (("text", text),))


def warn(message: Message) -> None:
    """Show a warning at the line of the program that called the manager."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _is_ours(str(frame.f_globals.get("__name__", ""))):
        level, frame = level + 1, frame.f_back
    warnings.warn(message.render(), DeviceWarning, stacklevel=level)


def _is_ours(name: str) -> bool:
    return name in (__name__, "contextlib") or f"{name}.".startswith("torchferry.device.")
