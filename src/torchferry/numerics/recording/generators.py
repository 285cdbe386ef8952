"""Whether a program that goes on from a checkpoint restores the random generators of its device.

Libraries keep and restore the states of generators device by device, and a card that they do not name is left out: the
resumed run draws other numbers, in dropout for example, and nothing says so.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

CPU = "cpu"
_SETTERS = ("set_rng_state", "set_rng_state_all")
_NOT_THE_PROGRAMS = ("torch.", "torchferry.")
"""Who sets a state back that it changed itself, such as `torch.random.fork_rng`."""


class GeneratorWatch:
    """Notes whose states a program sets, from `start` to `stop`."""

    def __init__(self) -> None:
        self.restored: set[str] = set()
        self._undo: list[tuple[Any, str, Any, Any]] = []
        self._watched: list[Any] = []

    def start(self) -> None:
        """Put functions that note in place of torch's, now and in the plugin's module once it is registered."""
        for owner, kind in ((torch, CPU), *((getattr(torch, kind, None), kind) for kind in ("cuda", "xpu"))):
            self._watch(owner, kind)
        self._watch_plugin()
        register: Any = torch._register_device_module

        @functools.wraps(register)
        def registered(*args: Any, **kwargs: Any) -> Any:
            result = register(*args, **kwargs)
            self._watch_plugin()
            return result

        self._replace(torch, "_register_device_module", registered)

    def _watch_plugin(self) -> None:
        kind = torch._C._get_privateuse1_backend_name()
        self._watch(getattr(torch, kind, None), kind)

    def _watch(self, owner: Any, kind: str) -> None:
        if owner in self._watched:
            return
        for module in filter(None, (owner, getattr(owner, "random", None))):
            self._watched.append(module)
            for name in _SETTERS:
                original = vars(module).get(name)
                if callable(original):
                    self._replace(module, name, self._noting(original, kind))

    def _replace(self, module: Any, name: str, value: Any) -> None:
        self._undo.append((module, name, vars(module)[name], value))
        setattr(module, name, value)

    def stop(self) -> None:
        """Put torch's functions back; what another one has replaced since is left to it."""
        while self._undo:
            module, name, original, noting = self._undo.pop()
            if vars(module).get(name) is noting:
                setattr(module, name, original)

    def forgotten(self, kind: str) -> bool:
        """Whether the CPU's generator was set to a state of before, and none of a device's was.

        Args:
            kind: The type of the device that the program runs on.
        """
        return kind != CPU and self.restored == {CPU}

    def _noting(self, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def noting(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not f"{sys._getframe(1).f_globals.get('__name__', '')}.".startswith(_NOT_THE_PROGRAMS):
                self.restored.add(kind)
                self._watch_plugin()
            return result

        return noting
