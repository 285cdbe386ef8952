"""What goes in front of PYTHONPATH for a command whose processes begin something of ours when they import torch."""

from __future__ import annotations

import os
from pathlib import Path

SITE = Path(__file__).with_name("site")
"""Holds a `sitecustomize` that calls our entry points for torch where torch does not do it itself: before 2.5."""


def search_path(*folders: Path) -> str:
    """Return PYTHONPATH with folders in front that hold an entry point for torch, each with its metadata."""
    return os.pathsep.join([*map(str, folders), str(SITE), *filter(None, [os.environ.get("PYTHONPATH", "")])])
