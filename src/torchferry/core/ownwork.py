"""What torchferry does on the device on its own account, so that a rehearsal does not count it as the program's."""

from __future__ import annotations

import threading
from types import TracebackType


class _Depth(threading.local):
    value = 0


_depth = _Depth()


class OwnWork:
    """Within the context, waits and copies of this thread are torchferry's own."""

    __slots__ = ()

    def __enter__(self) -> None:
        _depth.value += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _depth.value -= 1


def is_own() -> bool:
    """Whether what this thread does now is torchferry's own work."""
    return _depth.value > 0
