"""What a tool computes for itself, unseen by its own dispatch modes and by those of the program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from torch.utils._python_dispatch import _disable_current_modes

from torchferry.core.ownwork import OwnWork

P = ParamSpec("P")
R = TypeVar("R")


def unseen(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function run with no dispatch mode active, and with its waits and copies counted for nobody."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with OwnWork(), _disable_current_modes():
            return function(*args, **kwargs)

    return run
