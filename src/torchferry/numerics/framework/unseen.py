"""What a tool computes for itself, unseen by its own dispatch modes and by those of the program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torchferry.core.ownwork import OwnWork

P = ParamSpec("P")
R = TypeVar("R")

_of_tracing: Callable[[], int] = getattr(torch._ops, "_len_torch_dispatch_stack_pre_dispatch", lambda: 0)
"""How many modes of torch's own tracing there are, which are kept elsewhere than others."""


class Unseen(OwnWork):
    """Within the context no dispatch mode is active, and waits and copies count for nobody.

    torch has a context that does the first and, where nothing is traced, no more; it costs ten times as much, and the
    tools come by here many times in a step.
    """

    __slots__ = ("_modes", "_traced")

    def __enter__(self) -> None:
        super().__enter__()
        self._modes: list[Any] = []
        self._traced: Any = None
        if _of_tracing():
            self._traced = _disable_current_modes()
            self._traced.__enter__()
            return
        for _ in range(torch._C._len_torch_dispatch_stack()):
            self._modes.append(torch._C._pop_torch_dispatch_stack(None))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._traced is not None:
            self._traced.__exit__(kind, error, trace)
        while self._modes:
            torch._C._push_on_torch_dispatch_stack(self._modes.pop())
        super().__exit__(kind, error, trace)


def unseen(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function run with no dispatch mode active, and with its waits and copies counted for nobody."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with Unseen():
            return function(*args, **kwargs)

    return run
