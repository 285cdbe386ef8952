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

from torchferry.migration.durable import Durable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""Without O_NONBLOCK a named pipe without a writer would be waited for."""

_PART = 1 << 20
"""Bytes that are read at once."""


class WrongKindError(OSError):
    """A name is a link, or something else that is neither the folder nor the regular file that it should be."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "is a link, or of another kind", str(path))


class Directory:
    """An open folder.

    Attributes:
        descriptor: Its file descriptor.
        path: How it was reached, for messages alone.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor = descriptor
        self.path = path

    @classmethod
    def open(cls, path: Path) -> Directory:
        """Open the folder that the user named; links on the way to it are the user's own."""
        return cls(os.open(path, _FOLDER), path)

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def folder(self, name: str) -> Directory:
        """Open a folder in this one.

        Raises:
            WrongKindError: it is a link or no folder.
            FileNotFoundError: there is none.
        """
        path = self.path / name
        try:
            return Directory(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor), path)
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
        current = Directory(os.dup(self.descriptor), self.path)
        for name in path.split("/")[:-1]:
            with current:
                current = current.folder(name)
        return current

    def make_folder(self, name: str, mode: int = 0o700) -> None:
        """Make a folder in this one; only its owner may enter it unless `mode` says otherwise."""
        os.mkdir(name, mode, dir_fd=self.descriptor)

    def names(self) -> list[str]:
        """Return the names in this folder, in order."""
        return sorted(os.listdir(self.descriptor))

    def status(self, name: str) -> os.stat_result:
        """Return the status of a name, of a link its own."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

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
            return stat.S_ISLNK(self.status(name).st_mode)
        except FileNotFoundError:
            return False

    def identity(self) -> tuple[int, int]:
        """Return device and inode, which tell this folder from every other."""
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino

    def is_at(self, path: Path) -> bool:
        """Whether this folder is at a path."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity()

    def is_still(self, name: str, descriptor: int) -> bool:
        """Whether a name in this folder is what was opened as `descriptor`."""
        try:
            named, opened = self.status(name), os.fstat(descriptor)
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
            descriptor = os.open(name, _FILE, dir_fd=self.descriptor)
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
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        path = self.path / name
        try:
            descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
        except OSError as error:
            raise _named(error, path) from None
        try:
            for part in (data,) if isinstance(data, bytes) else data:
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            if owner is not None:
                with contextlib.suppress(OSError):  # only root may give files away
                    os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            if mtime_ns is not None:
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
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
            os.replace(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=folder.descriptor)
        except OSError as error:
            raise _named(error, folder.path / new_name) from None

    def remove(self, name: str) -> None:
        """Remove a file; one that is missing is no error."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def remove_folder(self, name: str) -> bool:
        """Remove a folder if it is empty; return whether it is gone."""
        try:
            os.rmdir(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def sync(self, durable: Durable | None = None) -> None:
        """Make the names in this folder durable, by `durable` at the end of its block."""
        if durable is None:
            os.fsync(self.descriptor)
        else:
            durable.take(os.dup(self.descriptor), self.path)


def _named(error: OSError, path: Path) -> OSError:
    """Return an error with the whole path in it, since a name in an open folder says little to a user."""
    return type(error)(error.errno, error.strerror, str(path))
