"""How the processes of a command begin something of ours when they import torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError
from torchferry.core.terminal import print_error

SITE = Path(__file__).with_name("site")
"""Holds a `sitecustomize` that calls our entry points for torch where torch does not do it itself: before 2.5."""

NOTES = "TORCHFERRY_COMMAND_NOTES"
"""Set for the processes of a command: the folders where they note why nothing of ours began, and what ended them.

A command that runs within another one of ours has two.
"""

_WITHOUT_TORCH = "without-torch"  # core/site writes it, in any Python
_REFUSED = "refused"
_UNCAUGHT = "uncaught-*.log"  # core/site writes them


def noting(folder: Path) -> dict[str, str]:
    """Return the variable by which the processes of a command say why nothing of ours began; SITE is on their path.

    Args:
        folder: Of the command, ours alone.
    """
    return {NOTES: os.pathsep.join([str(folder.absolute()), *filter(None, [os.environ.get(NOTES, "")])])}


def python_without_torch(folder: Path) -> str:
    """Return the Python of a process that looked for torch and has none; empty where there was no such process."""
    try:
        return (folder / _WITHOUT_TORCH).read_text(encoding="utf-8")
    except OSError:
        return ""


def was_refused(folder: Path) -> bool:
    """Whether `or_end` ended a process of the command."""
    return (folder / _REFUSED).exists()


def uncaught_logs(folder: Path) -> list[Path]:
    """Return the logs of the exceptions that ended Python processes of the command, one for each process."""
    return sorted(folder.glob(_UNCAUGHT))


def search_path(*folders: Path) -> str:
    """Return PYTHONPATH with folders in front that hold an entry point for torch, each with its metadata."""
    return os.pathsep.join([*map(str, folders), str(SITE), *filter(None, [os.environ.get("PYTHONPATH", "")])])


def or_end(step: Callable[[], object]) -> None:
    """Run a step of such a beginning; what torchferry says against it ends the process, which would do nothing."""
    try:
        step()
    except TorchferryError as error:
        print_error(error.lines())
        for folder in filter(None, os.environ.get(NOTES, "").split(os.pathsep)):
            with contextlib.suppress(OSError):
                Path(folder, _REFUSED).touch()
        raise SystemExit(exitcodes.ERROR) from None
