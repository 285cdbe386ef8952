"""One migration of a tree at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from torchferry.core import system
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.terminal import print_own_notice
from torchferry.migration.directory import Directory
from torchferry.migration.journal import FOLDER, control_folder

_LOCK = "lock"
_ATTEMPTS = 50
"""How often `.torchferry` may vanish while it is being locked, since another run has just removed it, empty."""


@contextmanager
def locked(top: Directory) -> Iterator[Directory]:
    """Hold the lock of a tree and yield `.torchferry`, open. The lock ends with the process, however that ends.

    Raises:
        TorchferryError: another process holds it, or the lock is not a file of torchferry's own.
    """
    for _ in range(_ATTEMPTS):
        with control_folder(top) as control:
            try:
                descriptor = _taken(top, control)
            except FileNotFoundError:
                continue
            try:
                if not (top.is_still(FOLDER, control) and control.is_still(_LOCK, descriptor)):
                    continue
                with contextlib.suppress(OSError):  # the number is for messages alone, and the disk may be full
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, str(os.getpid()).encode())
                yield control
                return
            finally:
                os.close(descriptor)
    raise _unusable(control, "it vanishes again and again")


def _taken(top: Directory, control: Directory) -> int:
    """Open the lock and take it.

    Raises:
        FileNotFoundError: its folder has just been removed.
    """
    try:
        descriptor = control.held.open(_LOCK, system.LOCK, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EMLINK):
            raise _not_a_lock(control) from None
        raise _unusable(control, error.strerror) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # writing would change a file of another name
            raise _not_a_lock(control)
        try:
            system.lock(descriptor)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            raise TorchferryError(
                say(
                    "another torchferry (process {pid}) is writing in {root}",
                    pid=holder if holder.isdigit() else "?",
                    root=top.path,
                ),
                say("wait until it is done"),
            ) from None
        except OSError as error:
            if error.errno != errno.ENOTSUP or system.HAS_LOCKS:
                raise _unusable(control, error.strerror) from None
            print_own_notice(say("this system has no locks: let no other torchferry write here meanwhile"))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _not_a_lock(control: Directory) -> TorchferryError:
    return TorchferryError(
        say("`{path}` was not made by torchferry: it is a link, or of another kind", path=control.path / _LOCK),
        say("move it away and try again"),
    )


def _unusable(control: Directory, error: str | None) -> TorchferryError:
    return TorchferryError(
        say("cannot lock {path}: {error}", path=control.path / _LOCK, error=error),
        say("use `--out DIR` to write a copy elsewhere"),
    )
