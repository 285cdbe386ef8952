"""Reading files that nobody vouches for: regular ones alone, without waiting, and only so much of them.

A tree can hold a named pipe in place of a file, a link to a device, or a file of many terabytes that takes no room on
the disk. A plain `open` waits for the first for ever, and reads the others until the memory is full.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from torchferry.core.system import READ_ANY

_FLAGS = READ_ANY

_PART = 1 << 16
"""Bytes that are read at once of a file that says that it has less, as those of the system do."""

LARGEST = 1 << 28
"""Bytes: far above any file of source, and little enough for the memory."""

LARGEST_SETTINGS = 1 << 22
"""Bytes: far above any file of settings or patterns."""


def read_regular(path: str | os.PathLike[str], limit: int = LARGEST) -> bytes:
    """Return the content of a regular file, also behind a link.

    Raises:
        OSError: it cannot be read, is no regular file, or has more than `limit` bytes (`errno.EFBIG`).
    """
    return read_with_mode(path, limit)[0]


def read_with_mode(path: str | os.PathLike[str], limit: int = LARGEST) -> tuple[bytes, int]:
    """Return what `read_regular` does, and the permission bits of the file; raises the same."""
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
        parts: list[bytes] = []
        left = limit + 1 if status.st_size <= limit else 0
        while left > 0 and (part := os.read(descriptor, min(left, max(status.st_size + 1, _PART)))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    if left <= 0:
        raise OSError(errno.EFBIG, f"has more than {limit} bytes", os.fspath(path))
    return b"".join(parts), stat.S_IMODE(status.st_mode)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, also behind a link, that is read in parts; for files that may be larger than the memory.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_head(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the first bytes of a regular file, also behind a link, at most `limit`; for many files one after another.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
        return os.read(descriptor, limit)
    finally:
        os.close(descriptor)


def read_text(path: Path, limit: int = LARGEST, errors: str = "strict") -> str:
    """Return the text of a regular file in UTF-8; raises what `read_regular` does, and UnicodeDecodeError."""
    text = read_regular(path, limit).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as Python's text files do


def require_writable(path: Path) -> None:
    """Find out whether a file or a folder, new or not, can be written before something long is done for it.

    Raises:
        OSError: a folder on the way is missing or is a file, or who runs this may not write there.
    """
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        os.stat(f"{path.parent}{os.sep}.")
        tested = path.parent
    else:
        tested = path / "." if is_folder else path
    if not os.access(tested, os.W_OK | (os.X_OK if tested.is_dir() else 0)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def require_creatable(path: Path) -> None:
    """As `require_writable`, for what is made with those folders above it that are missing.

    Raises:
        OSError: what is there of the way to it is no folder, or who runs this may not write there.
    """
    first = path
    while not os.path.lexists(first.parent):
        first = first.parent
    require_writable(first)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file; where that fails, as on a full disk, nothing new is left and an old file is as it was.

    What is no regular file, such as a pipe, what has several names, and a file in a folder where none can be made are
    written in place.

    Raises:
        OSError: it cannot be written.
        OutsideRequestError: who started torchferry does not allow it.
    """
    from torchferry.core.write_fence import require_in_roots  # imported late: what reads files needs no fence

    require_in_roots(path)
    mode = None
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not os.access(path.parent, os.W_OK):
            path.write_bytes(data)
            return
        mode = stat.S_IMODE(status.st_mode)
    place = Path(os.path.realpath(path))  # a link stays one
    new = place.with_name(f".{place.name}.{os.getpid()}.torchferry")
    try:
        with new.open("xb") as file:
            file.write(data)
        if mode is not None:
            new.chmod(mode)
        new.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def make_writable_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing, and write in it.

    Raises:
        OSError: it is a file, or cannot be made or written.
    """
    import tempfile  # imported late: few commands make a folder

    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
