"""A folder that one of several processes makes and all of them use, agreed on by a lock on a file beside it."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import time
from collections.abc import Callable


def make_once(
    descriptor: int, *, is_made: Callable[[], bool], make: Callable[[], object], on_wait: Callable[[], object]
) -> None:
    """Return with a shared lock, when the folder is made: by this process, or by another one meanwhile.

    A shared lock is kept as long as the folder is used, maybe for days. So nobody may wait for the exclusive one that
    making needs: it is had at once, or the folder is looked at again.

    Args:
        descriptor: The file that is locked; not locked yet.
        is_made: Whether the folder is whole.
        make: Makes it, with an exclusive lock.
        on_wait: Called before this process waits for one that makes the folder, or removes it.

    Raises:
        FileNotFoundError: it was made, and is not whole.
        OSError: the file system has no locks.
    """
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if is_made():
            return
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - not to meet again
            continue
        if not is_made():
            make()
            if not is_made():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
