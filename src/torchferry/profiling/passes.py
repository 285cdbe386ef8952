"""Where a step of a program ends that trains nothing: a module that no other module calls has run without gradients.

A pipeline of several models has a step for each call of one of them, such as each turn of a diffusion's loop.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import Module
from torch.optim.optimizer import Optimizer

from torchferry.numerics.framework.module_hooks import ModuleHooks
from torchferry.numerics.framework.torch_versions import is_dynamo_compiling


class Passes:
    """Calls of outermost modules in a program that has no optimizer.

    Args:
        ended: Called when such a call has ended.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._own = threading.local()
        self._hooks = ModuleHooks(self._enter, self._leave)
        self._looked = False

    def start(self) -> None:
        """Begin to listen."""
        self._hooks.start()

    def stop(self) -> None:
        """Listen no more: the program trains, or the recording ends."""
        self._hooks.stop()

    def _enter(self, module: Module, inputs: Any) -> None:
        if not is_dynamo_compiling():
            self._own.depth = getattr(self._own, "depth", 0) + 1

    def _leave(self, module: Module, inputs: Any, output: Any) -> None:
        if is_dynamo_compiling():
            return
        depth = self._own.depth = max(getattr(self._own, "depth", 0) - 1, 0)
        if depth or torch.is_grad_enabled() or not self._hooks.are_on:
            return
        if not self._looked:
            self._looked = True
            if any(issubclass(type(each), Optimizer) for each in gc.get_objects()):
                self.stop()  # an evaluation before the first step of a training
                return
        self._ended()
