"""Runs what torchferry registered as a backend of torch, at the end of `import torch`, where torch itself does not.

torch does it from 2.5 on. This file is in front of PYTHONPATH in the processes of a command that torchferry started, so
Python runs it at their start, and the `sitecustomize` that it hides after it. It is read by any Python that the command
uses, also one without torchferry, and asks for nothing that Python 3.8 lacks.

A process also leaves the exception that ends it, for who waits for the command: Python has printed it by then, and what
is printed cannot be read without a change of what the program writes to.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import machinery
from importlib import util as importing

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module typing is not imported by every program
    from typing import Any

_OURS = "torchferry"
"""What the names of our entry points begin with; torch before 2.5 loads nobody else's, and neither do we."""


def begin(torch: Any) -> None:
    """Do what `torch._import_device_backends` does, for the entry points of torchferry alone.

    Args:
        torch: The module, imported to its end.
    """
    if hasattr(torch, "_import_device_backends"):  # from torch 2.5 on
        return
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":  # as torch 2.5 asks it
        return
    from importlib import metadata  # imported late: it takes longer than the rest of this file

    entry_points: Any = metadata.entry_points()
    backends = (
        entry_points.select(group="torch.backends")
        if hasattr(entry_points, "select")
        else entry_points.get("torch.backends", ())
    )
    for entry_point in backends:
        if entry_point.name.startswith(_OURS):
            entry_point.load()()


class _TorchFinder:
    """Finds torch as the others do, and has its import followed by `begin`."""

    def __init__(self) -> None:
        self._searching = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> machinery.ModuleSpec | None:
        """Return the specification of torch as another finder makes it; None of every other module."""
        if name != "torch" or self._searching:
            return None
        self._searching = True
        try:
            spec = importing.find_spec(name)
        finally:
            self._searching = False
        if spec is None:
            _say_absent()
        elif spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        def exec_module(module: Any) -> None:
            del loader.exec_module
            loader.exec_module(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            begin(module)

        with contextlib.suppress(AttributeError):  # not a loader of files
            loader.exec_module = exec_module


def _say_absent() -> None:
    """Tell the commands of ours that this process is part of that its Python has no torch: nothing begins in it."""
    for folder in filter(None, os.environ.get("TORCHFERRY_COMMAND_NOTES", "").split(os.pathsep)):
        with contextlib.suppress(OSError), open(os.path.join(folder, "without-torch"), "w", encoding="utf-8") as file:
            file.write(sys.executable)


_LONGEST = 1 << 17
"""Letters of an exception, with its traceback, that are left: of a longer one the beginning and the end."""


def _leave_uncaught() -> None:
    """Leave the exception that nobody caught, each line with the time and the rank, as a launcher's log has them."""
    error = getattr(sys, "last_value", None)  # Python sets it before it prints what nobody caught
    folders = os.environ.get("TORCHFERRY_COMMAND_NOTES", "")
    if not folders or not isinstance(error, Exception):  # Ctrl-C is no failure
        return
    with contextlib.suppress(Exception):  # the program's own end must not change for that
        import traceback
        from datetime import datetime, timezone

        passed = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
        if str(passed[-1] if passed else "").partition(".")[0] == _OURS:
            return  # raised by torchferry, whose own words say what to do
        if getattr(error, "torchferry_explained", False):
            return
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if len(text) > _LONGEST:
            text = text[: _LONGEST // 2] + "\n" + text[-_LONGEST // 2 :]
        rank = os.environ.get("RANK", "")
        when = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        begin = when + (" [rank" + rank + "]: " if rank.isdigit() else " ")
        lines = "".join(begin + line + "\n" for line in text.splitlines())
        for folder in filter(None, folders.split(os.pathsep)):
            path = os.path.join(folder, "uncaught-" + str(os.getpid()) + ".log")
            with contextlib.suppress(OSError), open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(lines)


def _at_end() -> None:
    """Have `_leave_uncaught` called when the program has ended, before what plugins do then, which may not return."""
    import threading

    register = getattr(threading, "_register_atexit", None)  # from Python 3.9 on
    if register is None:
        import atexit

        register = atexit.register
    register(_leave_uncaught)


def _run_hidden() -> None:
    """Run the `sitecustomize` that is found behind this one; one of another torchferry in front has run already."""
    own_folder = os.path.realpath(os.path.dirname(__file__))
    folders = [os.path.realpath(folder) for folder in sys.path]
    begin_behind = folders.index(own_folder) + 1 if own_folder in folders else 0
    behind = [sys.path[index] for index in range(begin_behind, len(folders)) if folders[index] != own_folder]
    spec = machinery.PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        module = importing.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, _TorchFinder())
    if os.environ.get("TORCHFERRY_COMMAND_NOTES"):
        _at_end()
    _run_hidden()
