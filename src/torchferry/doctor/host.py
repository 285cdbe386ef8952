"""A machine, as the checks see it: files, device nodes, tools, the environment, the user, the interpreter.

Checks ask it and nothing else, so that they can be shown a folder with recorded outputs in place of this machine.
"""

from __future__ import annotations

import glob
import os
import platform
import socket
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchferry.core import own_python, subprocesses
from torchferry.core.subprocesses import ProcessResult
from torchferry.core.tool_environment import find_tool

TOOL_TIMEOUT = 10.0
"""Seconds for a tool; a management tool that takes longer hangs on its driver."""

_READ_LIMIT = 4 << 20
"""Bytes that are read of a file; the largest that is asked for lists a kernel's modules."""


@dataclass(frozen=True)
class User:
    """Who is looking: numbers and names of the user and of all groups."""

    uid: int
    name: str
    groups: tuple[int, ...]


@dataclass(frozen=True)
class HostFile:
    """A file or a device node.

    Attributes:
        path: Where.
        device: Whether it is a device node.
        mode: Permission bits.
        uid: Owner.
        gid: Group.
        size: Bytes.
        usable: Whether this user may read and write it.
    """

    path: str
    device: bool
    mode: int
    uid: int
    gid: int
    size: int
    usable: bool


@dataclass(frozen=True)
class Opener:
    """A process that has files open: its number, its name, the files."""

    pid: int
    name: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Space:
    """Room in a file system: bytes, and whether files can still be made."""

    total: int
    free: int
    files_left: bool
    writable: bool


@dataclass(frozen=True)
class Host:
    """This machine, or one over another root.

    Attributes:
        root: Where its files lie; `/` for this machine.
        environment: Its environment variables.
        python: The interpreter that is examined.
        cwd: The folder that programs are started in.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = sys.executable
    cwd: str = field(default_factory=os.getcwd)

    # --- files ---

    def place(self, path: str) -> Path:
        """Return where a path of the machine lies here."""
        return self.root / path.lstrip("/")

    def read(self, path: str) -> str | None:
        """Return the text of a file; None when it is not there or cannot be read."""
        try:
            with self.place(path).open("rb") as stream:
                return stream.read(_READ_LIMIT).decode("utf-8", "replace")
        except OSError:
            return None

    def spelled(self, pattern: str) -> str:
        """Return a path of the tables as it is on this machine: with its architecture."""
        return pattern.replace("{arch}", self.architecture)

    def find(self, pattern: str) -> list[str]:
        """Return the paths that fit a pattern, sorted."""
        inside = self.spelled(pattern).lstrip("/")
        paths = glob.glob(os.path.join(glob.escape(str(self.root)), inside))
        prefix = "" if self.root == Path("/") else str(self.root)
        return sorted(path[len(prefix) :] for path in paths)

    def package_folders(self) -> list[str]:
        """Return patterns of the folders in which the interpreter's packages lie, by where it lies itself.

        Debian's Python has them in `dist-packages`, and what pip adds below /usr/local; others use lib64 beside lib.
        """
        program = self.python if "/" in self.python else self.which(self.python) or ""
        prefix, bin_folder, _ = program.rpartition("/bin/")
        if not bin_folder:
            return []
        prefixes = [prefix, "/usr/local"] if prefix in ("", "/usr") else [prefix]
        return [
            f"{prefix or '/usr'}/{lib}/python3*/{packages}"
            for prefix in prefixes
            for lib in ("lib", "lib64")
            for packages in ("site-packages", "dist-packages")
        ]

    def link(self, path: str) -> str | None:
        """Return what a link points at; None when it is none, is not there or may not be read."""
        try:
            return os.readlink(self.place(path))
        except OSError:
            return None

    def entry(self, path: str) -> HostFile | None:
        """Return a file or node; None when it is not there."""
        place = self.place(path)
        try:
            status = place.stat()
        except OSError:
            return None
        return HostFile(
            path,
            stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode),
            stat.S_IMODE(status.st_mode),
            status.st_uid,
            status.st_gid,
            status.st_size,
            os.access(place, os.R_OK | os.W_OK),
        )

    def space(self, path: str) -> Space | None:
        """Return the room in the file system of a folder; None when it is not there."""
        place = self.place(path)
        try:
            status = os.statvfs(place)
        except OSError:
            return None
        free = status.f_bavail * status.f_frsize
        left = status.f_files == 0 or status.f_favail > 0
        return Space(status.f_blocks * status.f_frsize, free, left, os.access(place, os.W_OK))

    # --- the system ---

    @property
    def architecture(self) -> str:
        """As `uname -m`."""
        return platform.machine()

    @property
    def kernel(self) -> str:
        """As `uname -r`."""
        return platform.release()

    @property
    def hostname(self) -> str:
        """The host's name."""
        return socket.gethostname()

    @property
    def user(self) -> User:
        """Who is looking."""
        import pwd  # not everywhere; torchferry's other commands do without

        uid = os.getuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return User(uid, name, tuple(sorted({os.getgid(), *os.getgroups()})))

    def group_name(self, gid: int) -> str:
        """Return the name of a group, or its number."""
        for line in (self.read("/etc/group") or "").splitlines():
            parts = line.split(":")
            if len(parts) > 2 and parts[2] == str(gid):
                return parts[0]
        return str(gid)

    def has_group(self, name: str) -> bool:
        """Whether there is a group of this name."""
        return any(line.startswith(f"{name}:") for line in (self.read("/etc/group") or "").splitlines())

    def openers(self, paths: Iterable[str]) -> list[Opener]:
        """Return the processes that have one of the files open, as far as this user may see what they have open."""
        paths_wanted, openers = set(paths), []
        for folder in self.find("/proc/[0-9]*"):
            opened = {self.link(path) for path in self.find(f"{folder}/fd/*")} & paths_wanted
            if opened:
                name = (self.read(f"{folder}/comm") or "?").strip()
                openers.append(Opener(int(folder.rpartition("/")[2]), name, tuple(sorted(filter(None, opened)))))
        return sorted(openers, key=lambda opener: opener.pid)

    def limits(self) -> dict[str, tuple[int, int]]:
        """Return the soft and hard limits by their name in `ulimit`; -1 is unlimited."""
        import resource

        kinds = {"memlock": resource.RLIMIT_MEMLOCK, "nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
        return {name: resource.getrlimit(kind) for name, kind in kinds.items()}

    def now(self) -> float:
        """Seconds since 1970 by this machine's clock."""
        return time.time()

    # --- programs ---

    def which(self, name: str, places: tuple[str, ...] = ()) -> str | None:
        """Return where a program lies: on PATH, else in one of `places`."""
        on_path = find_tool(name, self.environment)
        return on_path or next((place for place in places if os.access(self.place(place), os.X_OK)), None)

    def run(self, command: tuple[str, ...], timeout: float = TOOL_TIMEOUT) -> ProcessResult:
        """Run a tool, in English."""
        return subprocesses.run(command, timeout, {**self.environment, "LC_ALL": "C"})

    def run_python(self, program: Path, argument: str, timeout: float, **variables: str) -> ProcessResult:
        """Run a program of ours in the examined interpreter, as the user's programs run, from the user's folder."""
        environment = {**self.environment, **variables}
        return subprocesses.run(
            tuple(own_python.file_command(str(program), argument, python=self.python)), timeout, environment, self.cwd
        )
