"""Open folders: what is read, written or removed is looked up in an open folder, and a link is never followed.

A path that was checked can lead elsewhere by the time that it is used. An open folder cannot: it stays what it was when
it was opened, and each name in it is opened on its own and refused where it is a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from torchferry.core import system
from torchferry.core.system import HeldFolder
from torchferry.migration.durable import Durable

_PART = 1 << 20
"""Bytes that are read at once."""


class WrongKindError(OSError):
    """A name is a link, or something else that is neither the folder nor the regular file that it should be."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "is a link, or of another kind", str(path))


class Directory:
    """An open folder.

    Attributes:
        held: What the system keeps of it.
        path: How it was reached, for messages alone.
    """

    def __init__(self, held: HeldFolder, path: Path) -> None:
        self.held = held
        self.path = path

    @classmethod
    def open(cls, path: Path) -> Directory:
        """Open the folder that the user named; links on the way to it are the user's own."""
        return cls(system.open_folder(path, follow=True), path)

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        self.held.close()

    def folder(self, name: str) -> Directory:
        """Open a folder in this one.

        Raises:
            WrongKindError: it is a link or no folder.
            FileNotFoundError: there is none.
        """
        path = self.path / name
        try:
            return Directory(self.held.folder(name), path)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise WrongKindError(path) from None
            raise _named(error, path) from None

    def parent(self, path: str) -> Directory:
        """Open the folder that holds `path`, which has `/` and leads down from here, one folder after the other.

        Raises:
            WrongKindError: a folder on the way is a link or no folder.
            FileNotFoundError: a folder on the way is missing.
        """
        current = Directory(self.held.again(), self.path)
        for name in path.split("/")[:-1]:
            with current:
                current = current.folder(name)
        return current

    def make_folder(self, name: str, mode: int = 0o700) -> None:
        """Make a folder in this one; only its owner may enter it unless `mode` says otherwise."""
        self.held.make_folder(name, mode)

    def names(self) -> list[str]:
        """Return the names in this folder, in order."""
        return sorted(self.held.names())

    def status(self, name: str) -> os.stat_result:
        """Return the status of a name, of a link its own."""
        return self.held.status(name)

    def has(self, name: str) -> bool:
        """Whether a name is in this folder, be it a link that leads nowhere."""
        try:
            self.status(name)
        except FileNotFoundError:
            return False
        return True

    def is_link(self, name: str) -> bool:
        """Whether a name in this folder is a link."""
        try:
            return system.is_link(self.status(name))
        except FileNotFoundError:
            return False

    def identity(self) -> tuple[int, int]:
        """Return device and inode, which tell this folder from every other."""
        status = self.held.own_status()
        return status.st_dev, status.st_ino

    def is_at(self, path: Path) -> bool:
        """Whether this folder is at a path."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity()

    def is_still(self, name: str, opened_as: int | Directory) -> bool:
        """Whether a name in this folder is what was opened: a file's descriptor, or a folder."""
        try:
            named = self.status(name)
            opened = os.fstat(opened_as) if isinstance(opened_as, int) else opened_as.held.own_status()
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)

    def open_file(self, name: str) -> int:
        """Open a regular file for reading and return its descriptor.

        Raises:
            WrongKindError: it is a link or no regular file.
        """
        path = self.path / name
        try:
            descriptor = self.held.open(name, system.READ)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
                raise WrongKindError(path) from None
            raise _named(error, path) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise WrongKindError(path)
        return descriptor

    def read(self, name: str, most: int = -1) -> bytes:
        """Return the content of a regular file, or its first `most` bytes; raises what `open_file` does."""
        with os.fdopen(self.open_file(name), "rb") as file:
            return file.read(most)

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a regular file, however large it is; raises what `open_file` does."""
        import hashlib  # imported late: a first migration asks for it while files are examined

        sha256 = hashlib.sha256()
        with os.fdopen(self.open_file(name), "rb") as file:
            while part := file.read(_PART):
                sha256.update(part)
        return sha256.hexdigest()

    def create(
        self,
        name: str,
        data: bytes | Sequence[bytes],
        mode: int = 0o600,
        owner: tuple[int, int] | None = None,
        mtime_ns: int | None = None,
        durable: Durable | None = None,
    ) -> None:
        """Write a new file and make it durable, by `durable` at the end of its block; a name taken is an error."""
        path = self.path / name
        try:
            descriptor = self.held.open(name, system.NEW, 0o600)
        except OSError as error:
            raise _named(error, path) from None
        try:
            for part in (data,) if isinstance(data, bytes) else data:
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            if owner is not None:
                system.set_owner(descriptor, owner)
            system.set_mode(descriptor, mode)
            if mtime_ns is not None:
                self.held.set_time(name, descriptor, mtime_ns)
            if durable is None:
                os.fsync(descriptor)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise _named(error, path) from None
            raise
        if durable is None:
            os.close(descriptor)
        else:
            durable.take(descriptor, path)

    def replace(self, name: str, folder: Directory, new_name: str) -> None:
        """Move a file or folder of this folder to a name in another, in the place of what is there."""
        try:
            self.held.replace(name, folder.held, new_name)
        except OSError as error:
            raise _named(error, folder.path / new_name) from None

    def remove(self, name: str) -> None:
        """Remove a file; one that is missing is no error."""
        with contextlib.suppress(FileNotFoundError):
            self.held.remove(name)

    def remove_folder(self, name: str) -> bool:
        """Remove a folder if it is empty; return whether it is gone."""
        try:
            self.held.remove_folder(name)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def sync(self, durable: Durable | None = None) -> None:
        """Make the names in this folder durable, by `durable` at the end of its block."""
        if durable is None:
            system.sync_names(self.held)
        elif (descriptor := self.held.descriptor_to_sync()) is not None:
            durable.take(descriptor, self.path)


def _named(error: OSError, path: Path) -> OSError:
    """Return an error with the whole path in it, since a name in an open folder says little to a user."""
    return type(error)(error.errno, error.strerror, str(path))
