"""Run torchferry in a Python from which the names are taken away that only POSIX systems, or only Linux, have.

`python without_posix.py windows COMMANDS` runs the commands of a JSON list one after the other, each a list of words,
in one process, and prints what each ended with. What the standard library has found out about the system before is set
back, so that only torchferry is tried. This is not Windows: separators, drives and sharing are Linux's.
"""

from __future__ import annotations

import asyncio  # noqa: F401 - these are imported before: they need what is taken away
import importlib.abc
import json
import multiprocessing.pool  # noqa: F401
import os
import shutil
import signal
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

WINDOWS_LACKS_MODULES = {"fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}

WINDOWS_LACKS = [
    "O_CLOEXEC",
    "O_DIRECTORY",
    "O_NOCTTY",
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "O_SYNC",
    "O_TMPFILE",
    "WIFEXITED",
    "WNOHANG",
    "chown",
    "fchmod",
    "fchown",
    "fork",
    "forkpty",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getloadavg",
    "getpgid",
    "getpgrp",
    "getsid",
    "getuid",
    "getxattr",
    "killpg",
    "lchown",
    "listxattr",
    "memfd_create",
    "mkfifo",
    "nice",
    "openpty",
    "pidfd_open",
    "posix_spawn",
    "pread",
    "preadv",
    "pwrite",
    "register_at_fork",
    "sched_getaffinity",
    "sched_setaffinity",
    "sendfile",
    "setpgid",
    "setsid",
    "setxattr",
    "statvfs",
    "sysconf",
    "tcgetpgrp",
    "uname",
    "wait3",
    "wait4",
]
MACOS_LACKS = [
    "O_PATH",
    "O_TMPFILE",
    "copy_file_range",
    "eventfd",
    "getresuid",
    "getxattr",
    "listxattr",
    "memfd_create",
    "pidfd_open",
    "posix_fadvise",
    "posix_fallocate",
    "sched_getaffinity",
    "sched_setaffinity",
    "setresuid",
    "setxattr",
    "splice",
    "unshare",
]
SIGNALS = [
    "SIGALRM",
    "SIGCHLD",
    "SIGCONT",
    "SIGHUP",
    "SIGKILL",
    "SIGPIPE",
    "SIGQUIT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGUSR1",
    "SIGUSR2",
]
WITH_FOLDERS = [
    "access",
    "chmod",
    "link",
    "lstat",
    "mkdir",
    "open",
    "readlink",
    "rename",
    "replace",
    "rmdir",
    "stat",
    "symlink",
    "unlink",
    "utime",
]


class Absent(importlib.abc.MetaPathFinder):
    """Finds none of some modules."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        for name in names:
            sys.modules.pop(name, None)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def without_handles(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that knows no open folders, as those of Windows."""

    def called(*given: Any, **named: Any) -> Any:
        for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"):
            if named.get(name) is not None:
                raise NotImplementedError(f"{name} unavailable on this platform")
        return function(*given, **named)

    return called


def take_away(mode: str) -> None:
    """Take the names away that `windows` or `macos` does not have."""
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]
    shutil._copyxattr = lambda *given, **named: None  # type: ignore[attr-defined]
    for name in WINDOWS_LACKS if mode == "windows" else MACOS_LACKS:
        if hasattr(os, name):
            delattr(os, name)
    if mode == "macos":
        sys.platform = "darwin"
        return
    sys.meta_path.insert(0, Absent(WINDOWS_LACKS_MODULES))
    os.supports_dir_fd, os.supports_follow_symlinks = set(), set()
    os.supports_fd = {os.stat, os.truncate}
    listdir, scandir = os.listdir, os.scandir
    os.listdir = lambda path=".": listdir(_path(path))
    os.scandir = lambda path=".": scandir(_path(path))
    for name in WITH_FOLDERS:
        setattr(os, name, without_handles(getattr(os, name)))
    for name in SIGNALS:
        delattr(signal, name)
    from torchferry.core import system

    system.MOVES_OPEN_FILES = False


def _path(path: Any) -> Any:
    if isinstance(path, int):
        raise TypeError("a folder has no descriptor on this platform")
    return path


def main() -> None:
    """Run the commands."""
    mode, text = sys.argv[1:]
    if mode:
        take_away(mode)
    from torchferry import cli

    for words in json.loads(text):
        sys.argv = ["torchferry", *words]
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
        sys.stdout.flush()
        print(json.dumps(["ended", words, code]), flush=True)


if __name__ == "__main__":
    main()
