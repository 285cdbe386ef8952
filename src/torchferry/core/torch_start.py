"""How the processes of a command begin something of ours when they import torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError

SITE = Path(__file__).with_name("site")
"""Holds a `sitecustomize` that calls our entry points for torch where torch does not do it itself: before 2.5."""


def search_path(*folders: Path) -> str:
    """Return PYTHONPATH with folders in front that hold an entry point for torch, each with its metadata."""
    return os.pathsep.join([*map(str, folders), str(SITE), *filter(None, [os.environ.get("PYTHONPATH", "")])])


def or_end(step: Callable[[], object]) -> None:
    """Run a step of such a beginning; what torchferry says against it ends the process, which would do nothing."""
    try:
        step()
    except TorchferryError as error:
        print("torchferry: " + "\n  ".join(error.lines()), file=sys.stderr, flush=True)
        raise SystemExit(exitcodes.ERROR) from None
