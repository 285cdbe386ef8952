"""Folders of our own for the time of a command: nobody else reads them, and none outlives its command for long.

A command that is killed cannot remove its folder. The next one does: whoever uses a folder holds the lock in it, which
ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchferry.core.abandoned import remove_abandoned
from torchferry.core.folders import remove_tree

_LOCK = "lock"


@contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """Make a folder that is removed afterwards; remove those of killed commands that have the same prefix.

    Args:
        prefix: How its name begins; the folders of one kind alone begin like this.
    """
    _sweep(prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    lock = os.open(folder / "lock.new", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "lock.new").rename(folder / _LOCK)  # one that nobody holds is never seen
        yield folder
    finally:
        # what was started here may still be ending, and write
        for _ in range(50):
            remove_tree(folder)
            if not folder.exists():
                break
            time.sleep(0.1)
        os.close(lock)


def _sweep(prefix: str) -> None:
    """Remove folders of ours that no process uses."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        remove_abandoned(path, _LOCK)
