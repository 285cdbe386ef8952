"""Temporary folders that do not outlive their command for long: the next command removes what a killed one left."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchferry.core.abandoned import locked_folder, release_and_remove, remove_abandoned

_ATTEMPTS = 50
"""How often a folder is removed into which something still writes that was started for it, every tenth of a second."""


def locked_temporary_folder(prefix: str) -> tuple[Path, int]:
    """Return what `locked_folder` does in the system's temporary folder; see `temporary_folder`."""
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{prefix}*"):
        remove_abandoned(left)
    return locked_folder(place, prefix)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield a new folder that is removed afterwards; those that killed commands left of the same prefix go first.

    Args:
        prefix: How its name begins: that of the folders of one kind alone.
    """
    folder, lock = locked_temporary_folder(prefix)
    try:
        yield folder
    finally:
        release_and_remove(folder, lock, _ATTEMPTS)
