"""CUDA that is still there at run time: calls of `torch.cuda` and `cuda` given to torch, from the user's own lines.

What is watched goes on to do what it does on a machine without CUDA: `torch.cuda.is_available()` stays False,
`.to("cuda")` raises as it always does.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torchferry.backends.target import Target
from torchferry.rehearsal import events

_QUIET = frozenset({"is_available", "is_initialized", "device_count"})
"""Questions that portable code may ask on any machine: noted only where the user's own line asks them."""

_STAYS_WHERE_ABSENT = "empty_cache"
"""Does nothing on a machine without CUDA and changes no result, so it stays where the card has nothing like it."""

_LONGEST = 160
"""Characters of a warning that are kept."""


def watch(target: Target) -> None:
    """Begin to note remnants of a program that is for `target`; can be called again."""
    if getattr(torch.cuda, "_torchferry_watched", False):
        return
    torch.cuda._torchferry_watched = True  # type: ignore[attr-defined]
    _watch_initialisation()
    _watch_functions(target)
    _watch_warnings()
    _watch_device_argument(torch.amp.autocast_mode.autocast)
    _watch_device_argument(torch.amp.grad_scaler.GradScaler)


def _watch_warnings() -> None:
    """What is shown as a warning is an event too; a program that catches warnings keeps them to itself."""
    original = warnings.showwarning

    @functools.wraps(original)
    def show(message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any) -> None:
        text = str(message).strip().partition("\n")[0]
        events.recorder.add("warning", category.__name__, text[:_LONGEST])
        original(message, category, *args, **kwargs)

    warnings.showwarning = show


def _watch_initialisation() -> None:
    """`.to("cuda")`, `torch.zeros(..., device="cuda")` and `.cuda()` all end in `torch.cuda._lazy_init`."""
    original: Callable[[], None] = torch.cuda._lazy_init

    @functools.wraps(original)
    def lazy_init() -> None:
        events.recorder.add("cuda-remnant", "cuda", "a device `cuda` was asked for")
        original()

    torch.cuda._lazy_init = lazy_init


def _watch_functions(target: Target) -> None:
    for name in torch.cuda.__all__:
        if name == _STAYS_WHERE_ABSENT and target.api(f"torch.cuda.{name}").status == "missing":
            continue
        original = getattr(torch.cuda, name, None)
        if name.startswith("_") or not callable(original) or isinstance(original, type):
            continue
        setattr(torch.cuda, name, _noted(name, original))
    for kind in (torch.cuda.Stream, torch.cuda.Event):  # they stay classes: programs ask `isinstance`
        kind.__new__ = staticmethod(_noted(kind.__name__, kind.__new__))  # type: ignore[method-assign]


def _noted(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if events.recorder.called_by_user():
            events.recorder.add("cuda-question" if name in _QUIET else "cuda-remnant", f"torch.cuda.{name}")
        return original(*args, **kwargs)

    return call


def _watch_device_argument(kind: Any) -> None:
    """`torch.autocast("cuda")` and `GradScaler("cuda")` are switched off on such a machine, with a warning at most."""
    original = kind.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        device = kwargs.get("device_type", kwargs.get("device", args[0] if args else "cuda"))
        if str(device).partition(":")[0] == "cuda" and kwargs.get("enabled", True):
            name = f"{kind.__name__}({device!r})"
            events.recorder.add("cuda-remnant", name, "it is off on this machine")
        original(self, *args, **kwargs)

    kind.__init__ = init
