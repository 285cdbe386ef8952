"""One migration of a tree at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say


@contextmanager
def locked(control: Path) -> Iterator[None]:
    """Hold the lock in torchferry's folder while the body runs; it ends with the process, however that ends.

    Raises:
        TorchferryError: another process holds it.
    """
    descriptor = os.open(control / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "?"
            raise TorchferryError(
                say("another torchferry (process {pid}) is writing in {root}", pid=holder, root=control.parent),
                say("wait until it is done"),
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)
