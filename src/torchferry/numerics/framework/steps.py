"""Where a step of training ends, in programs that do not say: when the optimizer has stepped, or a scaler skipped it.

A program with several optimizers counts by the first one that stepped. A gradient scaler that finds an overflow does
not call the optimizer, so its `update` ends the step.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from torchferry.numerics.framework.torch_versions import GradScaler

Listener = Callable[[Optimizer], None]


class Steps:
    """Counts steps and tells when one is about to change the parameters, when one ended, and when one was skipped.

    Attributes:
        count: Steps that have ended.
        before: Called with the optimizer, before it changes its parameters.
        skipped: Called with the optimizer whose step a gradient scaler left out.
        scale: The scale of the gradients, while `skipped` is called; reading it waits for the device.
        after: Called when a step has ended, before `count` goes up.
    """

    def __init__(self) -> None:
        self.count = 0
        self.before: list[Listener] = []
        self.skipped: list[Listener] = []
        self.scale: Callable[[], float] = lambda: 1.0
        self.after: list[Callable[[], None]] = []
        self.by_hand = False
        """Whether the program says itself where a step ends, by `end`."""
        self._handles: list[Any] = []
        self._originals: dict[str, Any] = {}
        self._first: weakref.ref[Optimizer] | None = None
        self._scaled: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._stepped = False

    def start(self) -> None:
        """Begin to listen to optimizers and scalers."""
        self._handles = [
            register_optimizer_step_pre_hook(self._begins),
            register_optimizer_step_post_hook(self._ends),
        ]
        for name in ("step", "update"):
            self._originals[name] = GradScaler.__dict__[name]
        listened = self

        def step(self: GradScaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            listened._scaled.add(optimizer)
            listened._stepped = False
            result = listened._originals["step"](self, optimizer, *args, **kwargs)
            if not listened._stepped and self.is_enabled():
                listened._tell_skipped(optimizer, self.get_scale)
            return result

        def update(self: GradScaler, *args: Any, **kwargs: Any) -> Any:
            result = listened._originals["update"](self, *args, **kwargs)
            if listened._scaled:
                listened._end_by_itself()
            return result

        GradScaler.step = step
        GradScaler.update = update

    def stop(self) -> None:
        """Listen no more, and put back what was replaced."""
        for handle in self._handles:
            handle.remove()
        for name, original in self._originals.items():
            setattr(GradScaler, name, original)
        self._handles = []
        self._originals = {}

    def end(self) -> None:
        """End a step."""
        for call in self.after:
            call()
        self.count += 1

    def _tell_skipped(self, optimizer: Optimizer, scale: Callable[[], float]) -> None:
        before, self.scale = self.scale, scale
        try:
            for call in self.skipped:
                call(optimizer)
        finally:
            self.scale = before

    def _end_by_itself(self) -> None:
        if not self.by_hand:
            self.end()

    def _begins(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._stepped = True
        for call in self.before:
            call(optimizer)

    def _ends(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if optimizer in self._scaled:
            return  # the scaler's update ends it
        first = self._first() if self._first is not None else None
        if first is None:
            self._first = weakref.ref(optimizer)
        elif first is not optimizer:
            return
        self._end_by_itself()
