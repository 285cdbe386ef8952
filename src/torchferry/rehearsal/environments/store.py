"""The environments that are kept, in torchferry's cache: made whole or not at all, locked while they are used."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchferry.core import env
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.folders import remove_tree, walk
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.terminal import print_own_notice
from torchferry.rehearsal.environments import filling
from torchferry.rehearsal.environments.made_once import make_once
from torchferry.rehearsal.environments.request import EnvironmentRequest

_MADE = "torchferry-environment.json"
"""Written last: an environment without it is a half one."""


@dataclass(frozen=True)
class KeptEnvironment:
    """An environment that is kept.

    Attributes:
        name: Its name.
        folder: Where it is.
        holds: What was asked for, as pip writes it.
        used: When it was last used, in seconds since the epoch.
    """

    name: str
    folder: Path
    holds: tuple[str, ...]
    used: float

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def size(self) -> int:
        """Return the bytes of its files."""
        return sum(
            os.lstat(os.path.join(folder, name)).st_size
            for folder, _, files in walk(self.folder, lenient=True)
            for name in files
        )


@dataclass(frozen=True)
class EnvironmentInUse:
    """An environment, which nobody removes as long as a descriptor is open."""

    environment: KeptEnvironment
    descriptor: int

    def leave_to_program(self) -> None:
        """Let a program that this process becomes keep it in use."""
        os.set_inheritable(self.descriptor, True)


def environments_folder() -> Path:
    """Return where the environments are."""
    return env.cache_folder() / "environments"


def kept_environments() -> list[KeptEnvironment]:
    """Return the environments that are kept and whole, by name."""
    found = []
    with contextlib.suppress(OSError):
        for folder in sorted(environments_folder().iterdir()):
            environment = _read(folder)
            if environment is not None:
                found.append(environment)
    return found


def use(request: EnvironmentRequest) -> EnvironmentInUse:
    """Return an environment for a request, made where it is not kept yet.

    Raises:
        TorchferryError: it cannot be made, or the cache cannot be written.
    """
    folder = environments_folder() / request.name
    descriptor = _open_lock(folder)
    try:
        make_once(
            descriptor,
            is_made=lambda: _read(folder) is not None,
            make=lambda: _make(folder, request),
            on_wait=lambda: print_own_notice(
                say("another process is making the environment {name}; waiting for it", name=request.name)
            ),
        )
        environment = _read(folder)
        if environment is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        os.utime(folder / _MADE)
        filling.link_torchferry(folder)
    except OSError as error:
        os.close(descriptor)
        raise _unwritable(folder, error) from None
    except BaseException:
        os.close(descriptor)
        raise
    return EnvironmentInUse(environment, descriptor)


def remove(name: str) -> None:
    """Remove an environment, or what is left of one.

    Raises:
        UsageError: there is none of this name, or a program uses it.
    """
    folder = environments_folder() / name
    if name not in _names() or not folder.is_dir() or folder.is_symlink():
        raise UsageError(
            say("there is no environment {name}", name=name),
            say("kept: {names}", names=", ".join(each.name for each in kept_environments()) or "-"),
        )
    descriptor = _open_lock(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(folder)  # its lock stays: somebody may wait for it
    except BlockingIOError:
        raise UsageError(
            say("environment {name} is in use", name=name), say("wait until its program has ended")
        ) from None
    finally:
        os.close(descriptor)


def _names() -> list[str]:
    """Return what lies in the folder of environments: `..` does not."""
    try:
        return os.listdir(environments_folder())
    except OSError:
        return []


def _read(folder: Path) -> KeptEnvironment | None:
    """Return the environment in a folder; None where it is not whole, or its Python has gone."""
    marker = folder / _MADE
    try:
        document = parsed_json(marker.read_text(encoding="utf-8"))
        holds = tuple(str(each) for each in document["holds"])
        environment = KeptEnvironment(folder.name, folder, holds, marker.stat().st_mtime)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return environment if os.access(environment.python, os.X_OK) else None


def _make(folder: Path, request: EnvironmentRequest) -> KeptEnvironment:
    holds = [f"torch=={request.torch}", *filter(None, [request.plugin]), *request.packages]
    holds += [f"-r {path}" for path in request.requirement_files]
    print_own_notice(
        say(
            "making the environment {name} with Python {python}: {holds}; once, in about two minutes",
            name=request.name,
            python=request.python_version,
            holds=", ".join(holds),
        )
    )
    started = time.monotonic()
    remove_tree(folder)  # of one that was killed
    try:
        filling.fill(folder, request)
        partial = folder / f"{_MADE}.partial"
        partial.write_text(json.dumps({"holds": holds}), encoding="utf-8")
        partial.replace(folder / _MADE)
    except BaseException:  # Ctrl-C too
        remove_tree(folder)
        raise
    made = _read(folder)
    if made is None:
        raise TorchferryError(say("the environment {name} was removed while it was made", name=request.name))
    print_own_notice(
        say(
            "made in {seconds} s: {gigabytes} GB in {folder}",
            seconds=f"{time.monotonic() - started:.0f}",
            gigabytes=f"{made.size() / 1e9:.1f}",
            folder=folder,
        )
    )
    return made


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _open_lock(folder: Path) -> int:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        return os.open(_lock_of(folder), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(folder.parent, error) from None


def _unwritable(folder: Path, error: OSError) -> TorchferryError:
    return TorchferryError(
        say("cannot write in the cache {folder}: {error}", folder=folder, error=error.strerror or error),
        say("set TORCHFERRY_CACHE to a folder that can be written and has 2 GB free"),
    )


@contextlib.contextmanager
def in_use(request: EnvironmentRequest) -> Iterator[KeptEnvironment]:
    """Give an environment to a `with` block, as `use` makes it."""
    used = use(request)
    try:
        yield used.environment
    finally:
        os.close(used.descriptor)
