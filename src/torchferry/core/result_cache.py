"""Results in the user's cache: found by a hash of all that they depend on, and read only where they are this user's.

A cache is never needed: what cannot be read, is cut, or belongs to somebody else is as if it were not there, and a
folder that cannot be written only makes the next run take longer.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from torchferry.core import system
from torchferry.core.files import read_regular
from torchferry.core.lazy_regex import lazy_regex

_LARGEST = 1 << 26
"""Bytes of one result; a larger one is not kept."""

_NEW_FOLDERS = 3
"""Folders above that of the results one of which has to be there: the cache is made, but not the home of a user."""

_NAME = lazy_regex(r"\.?[0-9a-f]{64}\.json(?:\.[0-9a-f]{16})?")
"""A result, or what a killed process has left of one."""

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class ResultCache:
    """A folder of results.

    Args:
        folder: Where it lies; it is made when something is written.
        most: How many results are kept; the oldest ones make room for new ones. None for no limit.
    """

    def __init__(self, folder: Path, most: int | None = None) -> None:
        self.folder = folder
        self._most = most

    def read(self, key: str) -> bytes | None:
        """Return the result of a key as it was written, or None."""
        path = self._path(key)
        try:
            status = os.lstat(path)
            if not self._is_trusted() or not stat.S_ISREG(status.st_mode) or not _is_own(status):
                return None
            head, _, data = read_regular(path, _LARGEST).partition(b"\n")
        except OSError:
            return None
        return data if head == _digest(data) else None

    def write(self, key: str, data: bytes) -> None:
        """Keep a result; two processes that keep the same one at once leave a whole one."""
        path = self._path(key)
        new = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
        try:
            if len(data) + 65 > _LARGEST or not any(map(os.path.isdir, self.folder.parents[:_NEW_FOLDERS])):
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_trusted():
                return
            with os.fdopen(system.open_file(new, system.NEW), "wb") as file:
                file.write(_digest(data) + b"\n" + data)
            os.replace(new, path)
        except OSError:
            with suppress(OSError):
                os.unlink(new)
            return
        if self._most is not None:
            self._make_room(self._most)

    def _is_trusted(self) -> bool:
        """Whether the folder is this user's, no link, and nobody else may write into it."""
        folder = os.lstat(self.folder)
        return stat.S_ISDIR(folder.st_mode) and not system.is_link(folder) and _is_own(folder)

    def _make_room(self, most: int) -> None:
        """Remove the oldest results, with what killed processes left, and nothing that has another name."""
        results: list[tuple[int, str]] = []
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with suppress(OSError):
                        results.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
        for _, path in sorted(results)[: max(len(results) - most, 0)]:
            with suppress(OSError):
                os.unlink(path)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _is_own(status: os.stat_result) -> bool:
    """Whether something is this user's, and nobody else may write into it."""
    return system.is_own(status) and not system.is_open_to(status, _WRITABLE_BY_OTHERS)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
