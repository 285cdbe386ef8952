"""Range markers: on the simulated device they appear in torch's own profiler, as `record_function` does."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torchferry.rehearsal.device_module.context import Context


class _Open(threading.local):
    """The ranges of one thread that were pushed and not popped."""

    def __init__(self) -> None:
        self.stack: list[Any] = []  # record_function, whose methods torch leaves without types


def implementations(context: Context) -> dict[str, object]:
    """Return the range markers, by their name below `torch.cuda`."""
    opened = _Open()
    handles = itertools.count(1)
    started: dict[int, str] = {}

    def range_push(msg: str) -> int:
        """Begin a range within the open ones; return how many were open."""
        record: Any = torch.profiler.record_function(msg)
        record.__enter__()
        opened.stack.append(record)
        return len(opened.stack) - 1

    def range_pop() -> int:
        """End the range that was pushed last; return how many are still open, or -1 where none was."""
        if not opened.stack:
            return -1
        opened.stack.pop().__exit__(None, None, None)
        return len(opened.stack)

    def range_start(msg: str) -> int:
        """Begin a range that may end in another thread; return its handle."""
        handle = next(handles)
        started[handle] = msg
        return handle

    def range_end(range_id: int) -> None:
        """End the range of a handle."""
        started.pop(range_id, None)

    def mark(msg: str) -> None:
        """Mark an instant."""
        with torch.profiler.record_function(msg):
            pass

    @contextmanager
    def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:  # noqa: A001 - the name in torch.cuda.nvtx
        """Mark a block or a function; further arguments are formatted into the message."""
        range_push(msg.format(*args, **kwargs))
        try:
            yield
        finally:
            range_pop()

    return {
        "nvtx.range_push": range_push,
        "nvtx.range_pop": range_pop,
        "nvtx.range_start": range_start,
        "nvtx.range_end": range_end,
        "nvtx.mark": mark,
        "nvtx.range": range,
    }
