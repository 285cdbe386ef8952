"""Whether the program imports the plugin itself, where nobody knows if torch loads it.

A rehearsal lets torch load such a plugin, so that a program without the import can be rehearsed at all. That it has
none is said at the end.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from torchferry.core.userlines import NOWHERE
from torchferry.rehearsal import events

_OWN = str(Path(__file__).parent)
_LOADER = "_import_device_backends"
"""The function of torch that loads plugins."""


def watch(package: str, used: Callable[[], object]) -> None:
    """Begin to look for an import of `package`; without one, an event says so at the end if the device was `used`."""
    if not _is_loaded_by_torch():
        return
    imported = False

    def note(name: object) -> None:
        nonlocal imported
        caller = sys._getframe(2).f_code.co_filename
        if str(name).partition(".")[0] == package and not caller.startswith((_OWN, "<frozen")):
            imported = True

    builtins.__import__ = _noting(builtins.__import__, note)
    importlib.import_module = _noting(importlib.import_module, note)

    def report() -> dict[str, object]:
        if not imported and used():
            events.recorder.add("autoload", f"import {package}", place=NOWHERE)
        return {}

    events.recorder.at_end(report)


def _is_loaded_by_torch() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == _LOADER:
            return True
        frame = frame.f_back
    return False


def _noting(original: Any, note: Callable[[object], None]) -> Any:
    @functools.wraps(original)
    def import_(name: Any, *args: Any, **kwargs: Any) -> Any:
        note(name)
        return original(name, *args, **kwargs)

    return import_
