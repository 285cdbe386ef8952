"""Where `.to(device)` makes new Parameters: tied weights come apart, and an optimizer made before trains nothing.

Neither raises on such a card. Watched only where the plugin is known to behave so.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from torchferry.rehearsal import events

_optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
_moving = threading.local()


def watch() -> None:
    """Begin to look at each move of a module, and at the optimizers that exist then."""
    _watch_optimizers()
    _watch_moves()


def _watch_optimizers() -> None:
    original = torch.optim.Optimizer.__init__

    @functools.wraps(original)
    def init(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _optimizers.add(self)

    torch.optim.Optimizer.__init__ = init  # type: ignore[method-assign]


def _watch_moves() -> None:
    original: Callable[..., Any] = torch.nn.Module._apply

    @functools.wraps(original)
    def apply(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if getattr(_moving, "inside", False):
            return original(self, *args, **kwargs)
        before = _parameters(self)
        _moving.inside = True
        try:
            return original(self, *args, **kwargs)
        finally:
            _moving.inside = False
            _compare(before, _parameters(self))

    torch.nn.Module._apply = apply  # type: ignore[method-assign]


def _parameters(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return dict(module.named_parameters(remove_duplicate=False))


def _compare(before: dict[str, torch.nn.Parameter], after: dict[str, torch.nn.Parameter]) -> None:
    replaced = {id(old): name for name, old in before.items() if name in after and after[name] is not old}
    if not replaced:
        return
    uses = Counter(id(parameter) for parameter in before.values())
    for name, old in before.items():
        if uses[id(old)] > 1 and replaced.get(id(old)) == name:
            events.record("identity", name, "a tied weight came apart: its names hold two Parameters now")
    for optimizer in _optimizers:
        held = [p for group in optimizer.param_groups for p in group["params"] if id(p) in replaced]
        if held:
            name = type(optimizer).__name__
            events.record("identity", name, f"made before the move: it updates {len(held)} Parameters nobody uses")
