"""The texts and errors of a file with only what a project uses: those of `failures.py`, in English alone.

Nothing imports this module: `small_file.py` takes its text in place of the translated messages.
"""

from __future__ import annotations

import sys
import warnings


class DeviceError(RuntimeError):
    """Something about the device that the user can mend."""

    def __init__(self, message: str, advice: str | None = None) -> None:
        super().__init__(f"{message}; {advice}" if advice else message)


class DeviceNotAvailableError(DeviceError):
    """The device that was asked for is not there, or none is."""


class NotOnThisDeviceError(DeviceError):
    """The device has nothing of this kind; the text says what does instead."""


class DeviceWarning(UserWarning):
    """Something was chosen or left out that the user must see."""


def say(template: str, **values: object) -> str:
    """Return a text with its values."""
    return template.format(**values)


def say_plural(singular: str, plural: str, *, count: object, **values: object) -> str:
    """Return a text that counts, with its values."""
    return say(singular if str(count) == "1" else plural, count=count, **values)


def warn(message: str) -> None:
    """Show a warning at the line of the program that called this module."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "contextlib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, DeviceWarning, stacklevel=level)
