"""Marks of `torch.cuda.nvtx` where the card has none of its own: they stand in torch's profiler.

A mark changes no result, so a program need not end for it; that it stands elsewhere is said once.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.shim.warned import warn_user

NAMESPACE = f"{cuda.NAMESPACE}.nvtx"


class _Open(threading.local):
    """The ranges of one thread that were pushed and not popped."""

    def __init__(self) -> None:
        self.stack: list[Any] = []


def marks(target: Target) -> dict[str, Callable[..., Any]]:
    """Return the functions of `torch.cuda.nvtx` by their full names, as marks in torch's profiler.

    Results are those of NVTX: the level of a range from 0, and -1 from a pop where nothing is open.
    """
    opened = _Open()
    handles = itertools.count(1)
    started: dict[int, Any] = {}
    said = False

    def begun(message: str) -> Any:
        record: Any = torch.autograd.profiler.record_function(message)
        record.__enter__()
        return record

    def range_push(msg: str) -> int:
        """Begin a range within the open ones of this thread."""
        opened.stack.append(begun(msg))
        return len(opened.stack) - 1

    def range_pop() -> int:
        """End the range that this thread pushed last."""
        if not opened.stack:
            return -1
        opened.stack.pop().__exit__(None, None, None)
        return len(opened.stack)

    def range_start(msg: str) -> int:
        """Begin a range that may end in another thread, and return its handle."""
        handle = next(handles)
        started[handle] = begun(msg)
        return handle

    def range_end(range_id: int) -> None:
        """End the range of a handle."""
        record = started.pop(range_id, None)
        if record is not None:
            record.__exit__(None, None, None)

    def mark(msg: str) -> None:
        """Mark an instant."""
        begun(msg).__exit__(None, None, None)

    @contextmanager
    def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001 - the name in torch.cuda.nvtx
        """Mark a block or a function; further arguments are formatted into the message."""
        range_push(msg.format(*args, **kwargs))
        try:
            yield
        finally:
            range_pop()

    def told(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal said
            if not said:
                said = True
                title = target.title
                text = say("{target} has no `{name}`: marks stand in torch.profiler", target=title, name=NAMESPACE)
                warn_user(text)
            return function(*args, **kwargs)

        return call

    functions: tuple[Callable[..., Any], ...] = (range_push, range_pop, range_start, range_end, mark, range)
    return {f"{NAMESPACE}.{function.__name__}": told(function) for function in functions}
