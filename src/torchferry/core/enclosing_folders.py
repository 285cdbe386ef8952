"""The folders above a folder that may belong to the same project: the only ones that a search upward looks at."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from torchferry.core.system import is_open_to, user


def enclosing_folders(folder: Path) -> Iterator[Path]:
    """Yield a folder, links followed, and those above it in the same project, the nearest first.

    The top of a work tree of git ends a project; a submodule and a further work tree are projects, too. The search
    also ends below a folder that is no project: the root of the disk, a home folder, one in which everybody may
    write, one of another user, and one on another file system. Whoever can write there could plant a file.
    """
    place = Path(os.path.realpath(folder))
    try:
        start = os.stat(place)
    except OSError:
        yield place
        return
    owners = {start.st_uid, user(), 0}
    home = os.path.realpath(os.path.expanduser("~"))
    while True:
        yield place
        if is_work_tree(place) or place.parent == place:
            return
        place = place.parent
        if place.parent == place or os.fspath(place) == home or not _is_trusted(place, owners, start.st_dev):
            return


def is_work_tree(folder: Path) -> bool:
    """Whether a folder is the top of a work tree of git, be it of a submodule or a further work tree."""
    return os.path.lexists(folder / ".git")


def is_planted(file: Path, folder: Path) -> bool:
    """Whether a file above a folder belongs to another user, who is neither root nor the owner of the folder."""
    try:
        return os.stat(file).st_uid not in {os.stat(folder).st_uid, user(), 0}
    except OSError:
        return False  # reading it says what is wrong


def _is_trusted(folder: Path, owners: set[int], device: int) -> bool:
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return status.st_uid in owners and status.st_dev == device and not is_open_to(status, stat.S_IWOTH)
