"""Folders that one process uses, and what is left of them when it was killed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchferry.core import system
from torchferry.core.folders import remove_tree

LOCK = ".torchferry-lock"
_NEW_LOCK = f"{LOCK}.new"

_ATTEMPTS = 50
"""How often a new folder may be removed by another process before it is locked."""


def locked_folder(place: Path, prefix: str, suffix: str = "") -> tuple[Path, int]:
    """Return a new folder that only this user may enter, and the descriptor that holds its lock until it is closed.

    Raises:
        OSError: it cannot be made.
    """
    import tempfile  # imported late: a scan asks only for what was left behind

    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=place))
        try:
            return folder, _lock(folder)
        except FileNotFoundError:  # another process took it for what a killed one left
            continue
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))


def _lock(folder: Path) -> int:
    new = folder / (_NEW_LOCK if system.MOVES_OPEN_FILES else LOCK)
    lock = system.open_file(new, system.LOCK | os.O_EXCL, 0o600)
    try:
        with contextlib.suppress(OSError):  # a file system without locks, where nothing is taken for abandoned either
            system.lock(lock, wait=True)
        if system.MOVES_OPEN_FILES:
            new.rename(folder / LOCK)  # one that nobody holds is never seen
        else:
            os.stat(new)  # another process may have seen it before it was locked
    except BaseException:
        os.close(lock)
        raise
    return lock


@contextmanager
def abandoned(path: Path) -> Iterator[bool]:
    """Yield whether a folder is one of `locked_folder` whose process has ended.

    A name says nothing in a folder that others write into: it has to be this user's, closed to all others, with a lock
    that nobody holds; that lock is held during the block. Anything else is somebody's, and so is everything on a file
    system without locks.

    Args:
        path: It; a link is never ours.
    """
    with contextlib.ExitStack() as opened:
        yield is_ours(path) and _is_unlocked(path, opened)


def is_ours(folder: str | Path) -> bool:
    """Whether a folder is one of `locked_folder`, be its process alive or not."""
    try:
        status, lock = os.lstat(folder), os.lstat(os.path.join(folder, LOCK))
    except OSError:
        return False
    kinds = stat.S_ISDIR(status.st_mode) and stat.S_ISREG(lock.st_mode) and lock.st_nlink == 1
    modes = system.has_mode(status, 0o700) and system.has_mode(lock, 0o600)
    return kinds and modes and not system.is_link(status) and system.is_own(status) and system.is_own(lock)


def _is_unlocked(path: Path, opened: contextlib.ExitStack) -> bool:
    try:
        folder = system.open_folder(path)
        opened.callback(folder.close)
        lock = folder.open(LOCK, system.LOCK & ~os.O_CREAT)
        opened.callback(os.close, lock)
        system.lock(lock)
    except OSError:
        return False
    return True


def remove_abandoned(path: Path) -> bool:
    """Remove what `abandoned` says is ours; return whether it is gone."""
    remove_unfinished(path)
    with abandoned(path) as ours:
        if not ours:
            return not os.path.lexists(path)
        remove_locked(path)
    if not system.MOVES_OPEN_FILES:
        remove_locked(path)
    return not os.path.lexists(path)


def remove_locked(folder: Path) -> None:
    """Remove a folder of `locked_folder` that is held; its lock goes last, by which the next command knows it."""
    remove_tree(folder, last=LOCK)


def release_and_remove(folder: Path, lock: int, attempts: int = 1) -> None:
    """Remove a folder of `locked_folder` that this process holds, and close its lock.

    Args:
        folder: It.
        lock: The descriptor that holds its lock.
        attempts: How often, every tenth of a second, it is tried while something still writes there.
    """
    if not system.MOVES_OPEN_FILES:  # the lock could not be removed
        os.close(lock)
    for number in range(attempts):
        if number:
            time.sleep(0.1)
        remove_locked(folder)
        if not os.path.lexists(folder):
            break
    if system.MOVES_OPEN_FILES:
        os.close(lock)


def remove_unfinished(path: Path) -> None:
    """Remove a folder of `locked_folder` whose process was killed before it was locked: it holds nothing yet.

    A process that is only about to lock it makes another one.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or not system.has_mode(status, 0o700) or not system.is_own(status):
            return
        if not system.HAS_USERS:  # an empty folder may be anybody's
            return
        folder = system.open_folder(path)
        opened.callback(folder.close)
        if folder.names() == [_NEW_LOCK]:
            lock = folder.open(_NEW_LOCK, system.LOCK & ~os.O_CREAT)
            opened.callback(os.close, lock)
            system.lock(lock)
            folder.remove(_NEW_LOCK)
        os.rmdir(path)  # fails where anything is in it
