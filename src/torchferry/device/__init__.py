"""One object for the device of a program, whichever vendor's it is; also as one file to copy into a project.

`DeviceManager`, and the names of `portable.py`, which are CUDA's, need torch and are imported when they are requested:
the single file can be written where there is none.
Every module here that works at run time goes into that file (`one_file.py`), and so keeps to Python 3.8, torch 1.10,
and the few parts of `core` that go with it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchferry.device.dtypes import DtypeVerdict
    from torchferry.device.failures import (
        DeviceError,
        DeviceNotAvailableError,
        DeviceWarning,
        NotOnThisDeviceError,
    )
    from torchferry.device.manager import DeviceManager
    from torchferry.device.memory import MemoryStatistics

__all__ = [
    "DeviceError",
    "DeviceManager",
    "DeviceNotAvailableError",
    "DeviceWarning",
    "DtypeVerdict",
    "MemoryStatistics",
    "NotOnThisDeviceError",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        if name.startswith("__"):  # what Python itself asks a module for must not load torch
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        portable = importlib.import_module(f"{__name__}.portable")
        value = getattr(portable, name)
        if name in vars(portable):  # its own, and not what leads to a plugin's: it is not asked for twice
            globals()[name] = value
        return value
    home = {
        "DeviceManager": "manager",
        "DtypeVerdict": "dtypes",
        "MemoryStatistics": "memory",
    }.get(name, "failures")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
