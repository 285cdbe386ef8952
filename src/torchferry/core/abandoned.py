"""Files and folders that a killed process left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchferry.core.folders import remove_tree


@contextmanager
def abandoned(path: Path, lock: str = "") -> Iterator[bool]:
    """Yield whether a folder or file is one that a process of ours made and did not live to remove.

    Whoever uses one holds a lock, which ends with the process. A name says nothing in a folder that others write into:
    it has to be this user's, closed to all others, with a lock that nobody holds; that lock is held during the block.
    Anything else is somebody's, and so is everything on a file system without locks.

    Args:
        path: It; a link is never ours.
        lock: Name of the file in the folder that is locked; empty: it is locked itself.
    """
    with contextlib.ExitStack() as opened:
        yield _is_abandoned(path, lock, opened)


def _is_abandoned(path: Path, lock: str, opened: contextlib.ExitStack) -> bool:
    try:
        held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        opened.callback(os.close, held)
        status = os.fstat(held)
        wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != wanted:
            return False
        if not (stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)):
            return False
        if lock:
            held = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=held)
            opened.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        named = os.lstat(path)
    except OSError:
        return False
    return (named.st_dev, named.st_ino) == (status.st_dev, status.st_ino)  # not moved into place meanwhile


def remove_abandoned(path: Path, lock: str = "") -> bool:
    """Remove what `abandoned` says is ours; return whether it is gone."""
    with abandoned(path, lock) as ours:
        if not ours:
            return False
        if path.is_dir():
            remove_tree(path)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return not os.path.lexists(path)
