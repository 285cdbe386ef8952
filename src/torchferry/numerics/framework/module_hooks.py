"""Functions that are called around the forward of each module of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class ModuleHooks:
    """Calls a function when a module is entered, and one when it is left, also when it raised.

    Args:
        enter: Called with the module and its arguments.
        leave: Called with the module, its arguments and its result, which is None when it raised.
    """

    def __init__(self, enter: Callable[[Module, Any], None], leave: Callable[[Module, Any, Any], None]) -> None:
        self._enter = enter
        self._leave = leave
        self._handles: list[Any] = []

    @property
    def are_on(self) -> bool:
        """Whether they are called."""
        return bool(self._handles)

    def start(self) -> None:
        """Begin to call them, if they are not called yet."""
        if not self._handles:
            self._handles = [
                register_module_forward_pre_hook(self._enter),
                register_module_forward_hook(self._leave, always_call=True),
            ]

    def stop(self) -> None:
        """Call them no more."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
