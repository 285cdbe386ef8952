"""What differs between systems: open folders, locks, whom a file belongs to, durable writes, the end of processes.

Everything else asks here, so that torchferry runs where a POSIX name is missing. On Linux and macOS a folder is held by
its descriptor, and each name in it is opened there. Elsewhere a folder is held by its path: before each use it is
looked at again, and it has to be the same folder and no link; between the look and the use somebody could still
exchange it, which SECURITY.md says.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol


def _module(name: str) -> Any:
    """Return a module that not every system has, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt = _module("fcntl"), _module("msvcrt")

IS_LINUX = sys.platform == "linux" and hasattr(os, "killpg")
"""Whether all of torchferry runs here; a rehearsal builds and loads libraries in Linux's way."""

HAS_USERS = hasattr(os, "geteuid")
"""Whether a file says whose it is, and who else may write it."""

HAS_HANDLES = hasattr(os, "O_DIRECTORY") and hasattr(os, "O_NOFOLLOW") and os.open in os.supports_dir_fd
"""Whether a name can be looked up in an open folder."""

MOVES_OPEN_FILES = os.name != "nt"
"""Whether a file can be moved and removed while a process has it open."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
_READ = os.O_RDONLY | _ALWAYS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

READ_ANY = _READ
"""Flags to read a file, also behind a link. Without O_NONBLOCK a named pipe without a writer would be waited for."""

READ = _READ | _NO_LINK
"""Flags to read a file that is no link; for `open_file` and the folders below."""

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _ALWAYS | _NO_LINK
"""Flags to make a file; a name that is taken is an error."""

REPLACE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _ALWAYS | _NO_LINK

LOCK = os.O_RDWR | os.O_CREAT | _ALWAYS | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags for a file that is there to be locked."""

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _ALWAYS

_LINK_TAGS = (0xA000000C, 0xA0000003)
"""Reparse tags of Windows that lead elsewhere: symbolic links, and mount points, which are junctions too."""


def is_link(status: os.stat_result) -> bool:
    """Whether what `lstat` saw leads elsewhere; a junction of Windows does, too."""
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) in _LINK_TAGS


def open_file(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Open a file by its path as `os.open` does, never a link.

    Raises:
        OSError: it cannot be opened; `errno.ELOOP` for a link.
    """
    if _NO_LINK:
        return os.open(path, flags, mode)
    before = None
    with contextlib.suppress(FileNotFoundError):
        before = os.lstat(path)
        if is_link(before):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    descriptor = os.open(path, flags, mode)
    if before is not None and not os.path.samestat(before, os.fstat(descriptor)):
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return descriptor


class HeldFolder(Protocol):
    """A folder that stays what it was when it was opened, or is refused; names in it are never followed as links."""

    def folder(self, name: str) -> HeldFolder:
        """Open a folder in this one; `errno.ENOTDIR` or `errno.ELOOP` for a link and for what is no folder."""

    def again(self) -> HeldFolder:
        """Return the same folder, to be closed by itself."""

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file in it, with flags of this module."""

    def make_folder(self, name: str, mode: int) -> None:
        """Make a folder in it."""

    def names(self) -> list[str]:
        """Return the names in it."""

    def kinds(self) -> list[tuple[str, bool]]:
        """Return the names in it, each with whether it is a folder, and no link to one."""

    def status(self, name: str) -> os.stat_result:
        """Return the status of a name, of a link its own."""

    def own_status(self) -> os.stat_result:
        """Return the status of the folder."""

    def replace(self, name: str, folder: HeldFolder, new_name: str) -> None:
        """Move a name to another folder, in the place of what is there."""

    def link(self, name: str, new_name: str) -> None:
        """Give a file a second name; one that is taken is an error."""

    def chmod(self, name: str, mode: int) -> None:
        """Change the mode of a name."""

    def own_chmod(self, mode: int) -> None:
        """Change the mode of the folder."""

    def set_time(self, name: str, descriptor: int, mtime_ns: int) -> None:
        """Set when an open file of it was changed."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""

    def descriptor_to_sync(self) -> int | None:
        """Return a descriptor, to be closed by the caller, whose `fsync` makes the names durable; or None."""

    def close(self) -> None:
        """Close it."""


class _ByDescriptor:
    """A folder that is held by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def folder(self, name: str) -> HeldFolder:
        return _ByDescriptor(os.open(name, _FOLDER | _NO_LINK, dir_fd=self._descriptor))

    def again(self) -> HeldFolder:
        return _ByDescriptor(os.dup(self._descriptor))

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(name, flags, mode, dir_fd=self._descriptor)

    def make_folder(self, name: str, mode: int) -> None:
        os.mkdir(name, mode, dir_fd=self._descriptor)

    def names(self) -> list[str]:
        return os.listdir(self._descriptor)

    def kinds(self) -> list[tuple[str, bool]]:
        with os.scandir(self._descriptor) as scan:
            return [(item.name, item.is_dir(follow_symlinks=False)) for item in scan]

    def status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def own_status(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def replace(self, name: str, folder: HeldFolder, new_name: str) -> None:
        assert isinstance(folder, _ByDescriptor)
        os.replace(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=folder._descriptor)

    def link(self, name: str, new_name: str) -> None:
        os.link(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def chmod(self, name: str, mode: int) -> None:
        os.chmod(name, mode, dir_fd=self._descriptor)

    def own_chmod(self, mode: int) -> None:
        os.fchmod(self._descriptor, mode)

    def set_time(self, name: str, descriptor: int, mtime_ns: int) -> None:
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        os.rmdir(name, dir_fd=self._descriptor)

    def descriptor_to_sync(self) -> int | None:
        return os.dup(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _ByPath:
    """A folder that is held by its path, and looked at before each use."""

    def __init__(self, path: str, status: os.stat_result) -> None:
        self._path = path
        self._status = status

    def _at(self, name: str) -> str:
        separators = (
            os.sep,
            os.altsep or os.sep,
            *((":",) if os.name == "nt" else ()),
        )  # `:` names a drive or a stream
        if name in ("", ".", "..") or any(each in name for each in separators):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
        self.own_status()
        return os.path.join(self._path, name)

    def folder(self, name: str) -> HeldFolder:
        return _by_path(self._at(name))

    def again(self) -> HeldFolder:
        return _ByPath(self._path, self._status)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return open_file(self._at(name), flags, mode)

    def make_folder(self, name: str, mode: int) -> None:
        os.mkdir(self._at(name), mode)

    def names(self) -> list[str]:
        self.own_status()
        return os.listdir(self._path)

    def kinds(self) -> list[tuple[str, bool]]:
        statuses = [(name, self.status(name)) for name in self.names()]
        return [(name, stat.S_ISDIR(status.st_mode) and not is_link(status)) for name, status in statuses]

    def status(self, name: str) -> os.stat_result:
        return os.lstat(self._at(name))

    def own_status(self) -> os.stat_result:
        status = os.lstat(self._path)
        if is_link(status) or not os.path.samestat(status, self._status):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path)
        return status

    def replace(self, name: str, folder: HeldFolder, new_name: str) -> None:
        assert isinstance(folder, _ByPath)
        os.replace(self._at(name), folder._at(new_name))

    def link(self, name: str, new_name: str) -> None:
        os.link(self._at(name), self._at(new_name))

    def chmod(self, name: str, mode: int) -> None:
        path = self._at(name)
        if not is_link(os.lstat(path)):
            os.chmod(path, mode)

    def own_chmod(self, mode: int) -> None:
        self.own_status()
        os.chmod(self._path, mode)

    def set_time(self, name: str, descriptor: int, mtime_ns: int) -> None:
        os.utime(self._at(name), ns=(mtime_ns, mtime_ns))

    def remove(self, name: str) -> None:
        os.unlink(self._at(name))

    def remove_folder(self, name: str) -> None:
        os.rmdir(self._at(name))

    def descriptor_to_sync(self) -> int | None:
        return None

    def close(self) -> None:
        """Nothing is open."""


def _by_path(path: str) -> HeldFolder:
    status = os.lstat(path)
    if is_link(status):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return _ByPath(path, status)


def open_folder(path: str | os.PathLike[str], *, follow: bool = False) -> HeldFolder:
    """Open a folder.

    Args:
        path: Where it is.
        follow: It may be a link, which is the user's own; links above it are in any case.

    Raises:
        OSError: it cannot be opened, is no folder, or is a link.
    """
    if HAS_HANDLES:
        return _ByDescriptor(os.open(path, _FOLDER if follow else _FOLDER | _NO_LINK))
    if follow:
        return _by_path(os.path.realpath(path))
    return _by_path(os.path.abspath(path))


def sync_names(folder: HeldFolder) -> None:
    """Make the names in a folder durable, where the system leaves that to us."""
    descriptor = folder.descriptor_to_sync()
    if descriptor is None:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return bytes of an open file from a place on, which only one thread reads."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def is_appended_to(descriptor: int) -> bool:
    """Whether what is written to an open file goes to its end, wherever its position is; no where it is unknown."""
    return _fcntl is not None and bool(_fcntl.fcntl(descriptor, _fcntl.F_GETFL) & os.O_APPEND)


def set_mode(descriptor: int, mode: int) -> None:
    """Set the mode of an open file, where the system has modes."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)


def set_owner(descriptor: int, owner: tuple[int, int]) -> None:
    """Set the owner of an open file, where the system has them and lets us; only root may give files away."""
    if hasattr(os, "fchown"):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, *owner)


def user() -> int:
    """Return the number of the user; 0 where files have no owners that Python sees."""
    return os.geteuid() if HAS_USERS else 0


def is_own(status: os.stat_result) -> bool:
    """Whether a file is the user's; where files have no owners that Python sees, the user's profile protects it."""
    return not HAS_USERS or status.st_uid == os.geteuid()


def is_open_to(status: os.stat_result, bits: int) -> bool:
    """Whether a mode has one of some bits; no where modes say nothing about other users."""
    return HAS_USERS and bool(stat.S_IMODE(status.st_mode) & bits)


def has_mode(status: os.stat_result, mode: int) -> bool:
    """Whether something has a mode; yes where modes say nothing about other users."""
    return not HAS_USERS or stat.S_IMODE(status.st_mode) == mode


_LOCKED_AT = 1 << 30
"""Where the byte lies that Windows locks: behind all that is read, since others cannot read what is locked."""


def lock(descriptor: int, *, wait: bool = False) -> None:
    """Lock an open file for this process alone, until it is closed.

    Args:
        descriptor: The file.
        wait: Wait until nobody else holds it.

    Raises:
        BlockingIOError: another process holds it.
        OSError: its file system has no locks, or this Python does not (`errno.ENOTSUP`).
    """
    if _fcntl is not None:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX if wait else _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        return
    if _msvcrt is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _LOCKED_AT, os.SEEK_SET)
    try:
        while not _locked_byte(descriptor):
            if not wait:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            time.sleep(0.1)
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)


def _locked_byte(descriptor: int) -> bool:
    """Lock the byte at which an open file stands, in Windows' way; return whether nobody else holds it."""
    try:
        _msvcrt.locking(descriptor, _msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EDEADLK):
            raise
        return False
    return True


@contextlib.contextmanager
def folder_locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Wait until nobody else is in such a block for a folder; on a file system without locks nobody waits.

    Where no folder can be opened there is nothing to lock: two runs that replace one output at the same moment are then
    told apart by their own folders alone.
    """
    if not HAS_HANDLES:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | _ALWAYS)
    try:
        with contextlib.suppress(OSError):
            lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


HAS_LOCKS = _fcntl is not None or _msvcrt is not None

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""What a process cannot withstand."""

ENDINGS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""What ends us, or what we run."""


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a process that was started in its own session, with all that it started.

    Where there are no groups of processes it goes to the process; Windows ends it and what it started.

    Raises:
        ProcessLookupError: there is nobody any more.
        PermissionError: it is another user's.
    """
    if hasattr(os, "killpg"):
        os.killpg(leader, number)
    elif os.name == "nt":  # pragma: no cover - Windows
        from torchferry.core.process_tree import end_tree  # imported late: it starts a program

        end_tree(leader)
    else:
        os.kill(leader, number)


def is_group_gone(leader: int) -> bool:
    """Whether nothing is left of a group; where there are no groups, what ended the process has ended them."""
    if not hasattr(os, "killpg"):
        return True
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return True
    return False


def require_linux(command: str) -> None:
    """Refuse what runs on Linux alone, in one line.

    Args:
        command: The command, such as `torchferry rehearse`.

    Raises:
        UsageError: this is another system.
    """
    if IS_LINUX:
        return
    from torchferry.core.errors import UsageError  # imported late: on Linux nobody is told
    from torchferry.core.messages import say

    raise UsageError(
        say("`{command}` needs Linux", command=command),
        say("the analysis runs on this system too: scan, migrate, undo, port, api, rule, advise, mcp, lsp"),
    )
