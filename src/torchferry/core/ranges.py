"""Range markers as NVTX has them, by whatever records a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Ranges:
    """The functions of `torch.cuda.nvtx` that open and close within one thread.

    Args:
        record: Returns a context that records a block under a name; torch, which this does without, has one.
    """

    def __init__(self, record: Callable[[str], Any]) -> None:
        self._record = record
        self._open = threading.local()

    def range_push(self, msg: str) -> int:
        """Begin a range within the open ones of this thread; return how many were open."""
        record = self._record(msg)
        record.__enter__()
        stack = self._stack()
        stack.append(record)
        return len(stack) - 1

    def range_pop(self) -> int:
        """End the range that this thread pushed last; return how many are still open, or -1 where none was."""
        stack = self._stack()
        if not stack:
            return -1
        stack.pop().__exit__(None, None, None)
        return len(stack)

    def mark(self, msg: str) -> None:
        """Mark an instant."""
        with self._record(msg):
            pass

    @contextmanager
    def range(self, msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Mark a block or a function; further arguments are formatted into the message."""
        self.range_push(msg.format(*args, **kwargs))
        try:
            yield
        finally:
            self.range_pop()

    def _stack(self) -> list[Any]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        stack: list[Any] = self._open.stack
        return stack
