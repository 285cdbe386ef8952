"""Folders that a killed process left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from torchferry.core.folders import remove_tree


def remove_abandoned(folder: Path, lock: str = "") -> None:
    """Remove a folder that a process of ours made and did not live to remove.

    Whoever uses such a folder holds a lock, which ends with the process. A name says nothing in a folder that others
    write into: it has to be a folder of this user's, closed to all others, with a lock that nobody holds. Anything
    else stays, and so does everything on a file system without locks.

    Args:
        folder: The folder; a link stays.
        lock: Name of the file in it that is locked; empty: the folder itself is.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        opened.callback(os.close, held)
        status = os.fstat(held)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o700:
            return
        if lock:
            held = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=held)
            opened.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(folder)
