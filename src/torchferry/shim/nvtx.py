"""Marks of `torch.cuda.nvtx` where the card has none of its own: they stand in torch's profiler.

A mark changes no result, so a program need not end for it; that it stands elsewhere is said once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.core.ranges import Ranges
from torchferry.shim.caller_policy import warn_user

NAMESPACE = f"{cuda.NAMESPACE}.nvtx"


def nvtx_functions(target: Target) -> dict[str, Callable[..., Any]]:
    """Return the functions of `torch.cuda.nvtx` by their full names, as marks in torch's profiler.

    Results are those of NVTX: the level of a range from 0, and -1 from a pop where nothing is open.
    """
    ranges = Ranges(torch.autograd.profiler.record_function)
    handles = itertools.count(1)
    started: dict[int, Any] = {}
    warned = False

    def range_start(msg: str) -> int:
        """Begin a range that may end in another thread, and return its handle."""
        handle = next(handles)
        record: Any = torch.autograd.profiler.record_function(msg)
        started[handle] = record.__enter__()
        return handle

    def range_end(range_id: int) -> None:
        """End the range of a handle."""
        record = started.pop(range_id, None)
        if record is not None:
            record.__exit__(None, None, None)

    def warning_once(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal warned
            if not warned:
                warned = True
                title = target.title
                text = say("{target} has no `{name}`: markers appear in torch.profiler", target=title, name=NAMESPACE)
                warn_user(text)
            return function(*args, **kwargs)

        return call

    functions_of_ranges = (ranges.range_push, ranges.range_pop, ranges.mark, ranges.range)
    functions: tuple[Callable[..., Any], ...] = (*functions_of_ranges, range_start, range_end)
    return {f"{NAMESPACE}.{function.__name__}": warning_once(function) for function in functions}
