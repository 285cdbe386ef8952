"""The redirect answers differently by who asks: the module of the calling frame.

The program sees a CUDA device; torch, libraries that know the card and CUDA's kernels see the card. A library that
knows the card chooses it by itself; told that CUDA is available as well, it would take its CUDA path, and answers that
contradict each other are how a redirect confuses it.

Warnings name the program's own line for the same reason: it is the caller that can change something.
"""

from __future__ import annotations

import importlib.metadata
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import Message

_TRUTH = ("torch", "torchferry", "functorch", "torchgen")
"""Always see the card: they do the work."""

_TESTING = "torch.testing"
"""Part of a program's tests: told that there is no CUDA, it would skip them, which reads as if they had passed."""

_GROUPS = "torch.testing._internal.distributed"
"""Belongs to torch itself, which registers process groups of its own by it."""

_ASKS_FOR_THE_CARD = frozenset({"before", "after", "mixed", "never"})
"""Orders of `tables.ORDERS` in which a library finds the card by itself; others take the device that is named."""


_REDIRECT = "torchferry.shim."
"""Where the functions are that replace torch's, some of which call each other."""

_TRACER = "torch._dynamo.variables.torch"
"""Asks for the module whose code `torch.compile` traces."""


class CallerPolicy:
    """Which modules see the card itself."""

    def __init__(self, target: Target) -> None:
        backend = target.backend
        self._target = target
        self._known: dict[str, bool] = dict.fromkeys(_TRUTH, True)
        for module in (backend.PLUGIN, backend.IMPORT_NAMESPACE, backend.DISTRIBUTED, backend.DEVICE_FACTORY):
            self._known.setdefault(module.partition(".")[0], True)
        self._known[""] = False  # a vendor that has no such module; and code that belongs to none
        self.by_module: dict[str, bool] = {}

    def sees_card(self, depth: int = 2) -> bool:
        """Whether the caller's caller (`depth` frames up) sees the card rather than a CUDA device."""
        name = sys._getframe(depth).f_globals.get("__name__", "")
        seen = self.by_module.get(name)
        return self.decide(name) if seen is None else seen

    def knows(self, package: str) -> bool:
        """Whether the library `package`, in the version that is installed, knows the card."""
        sees_card = self._known.get(package)
        if sees_card is None:
            sees_card = self._known[package] = package in _kernels() or self._asks_for_the_card(package)
        return sees_card

    def _asks_for_the_card(self, package: str) -> bool:
        row = self._target.library(package, _version(package))
        return row.status == "knows" or (row.status == "partial" and row.extra.get("order") in _ASKS_FOR_THE_CARD)

    def decide(self, name: str) -> bool:
        """Whether the module `name` sees the card; the answer is kept in `by_module`."""
        seen = isinstance(name, str) and self.knows(name.partition(".")[0])
        if seen and f"{name}.".startswith(f"{_TESTING}.") and not name.startswith(_GROUPS):
            seen = False
        self.by_module[name] = seen
        return seen

    def dispatch_by_caller(self, real: Callable[..., Any], as_cuda: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `real` for those who see the card and `as_cuda` for the program."""
        by_module, decide = self.by_module, self.decide

        def call(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            name = frame.f_globals.get("__name__", "")
            while str(name).startswith(_REDIRECT) and frame.f_back is not None:
                frame = frame.f_back  # one of our functions asks for its caller
                name = frame.f_globals.get("__name__", "")
            if name == _TRACER:
                traced = frame.f_locals.get("tx")
                name = name if traced is None else traced.f_globals.get("__name__", "")
            seen = by_module.get(name)
            if seen is None:
                seen = decide(name)
            return (real if seen else as_cuda)(*args, **kwargs)

        return call


@lru_cache(maxsize=1)
def _kernels() -> frozenset[str]:
    """Return the packages of CUDA's kernels: a True would start kernels that cannot run."""
    return frozenset(
        module
        for package in cuda.packages().values()
        if package.kind in cuda.COMPILED_KINDS and package.names is None
        for module in package.modules
    )


def _version(package: str) -> str:
    """Return the version that is installed of `package`; empty where it states none."""
    stated = getattr(sys.modules.get(package), "__version__", "")
    if isinstance(stated, str) and stated:
        return stated
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def warn_user(text: Message) -> None:
    """Warn at the innermost line that is neither torchferry's nor torch's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in {"torchferry", "torch"}:
        frame, level = frame.f_back, level + 1
    warnings.warn(f"torchferry: {text}", UserWarning, stacklevel=level)
