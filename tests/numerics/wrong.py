"""A device that is wrong on request: a mode below all others changes what an operator gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Change = Callable[[Any, tuple[Any, ...]], Any]


class Wrong(TorchDispatchMode):
    """Changes the result of one operator; entered first, it lies below the tools, as a device does.

    Args:
        name: `add.Tensor`, without the namespace aten.
        change: Takes the result and the arguments, and gives what takes its place.
    """

    def __init__(self, name: str, change: Change) -> None:
        super().__init__()
        self._name = name if "." in name else f"{name}.default"
        self._change = change
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if str(func) != f"aten.{self._name}":
            return out
        self.calls += 1
        with torch.no_grad():
            return self._change(out, args)


def times(factor: float) -> Change:
    """Multiply a result."""
    return lambda out, args: out * factor


def one_off(by: float) -> Change:
    """Multiply one element of a result."""

    def change(out: Any, args: Any) -> Any:
        out.view(-1)[out.numel() // 2] *= by
        return out

    return change
