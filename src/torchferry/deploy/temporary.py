"""Folders of our own for the time of a command: nobody else reads them, and none outlives its command for long.

A command that is killed cannot remove its folder. The next one does: whoever uses a folder holds the lock in it, which
ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(0.1)
        os.close(lock)


def _sweep(prefix: str) -> None:
    """Remove folders of ours that no process uses."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            status = path.lstat()
            # a name in a folder that everybody writes into says nothing
            if (
                not stat.S_ISDIR(status.st_mode)
                or status.st_uid != os.geteuid()
                or stat.S_IMODE(status.st_mode) != 0o700
            ):
                continue
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
