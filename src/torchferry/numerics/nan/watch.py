"""The level that can always stay on: one norm of the gradients a step; a bad step is run again and gone through.

No operator is watched while all is well. What it takes to run a step again is kept by reference until the step ends:
arguments of the outermost modules, random states, copies of buffers that change, the few calls that make the loss.
"""

from __future__ import annotations

import math
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from torchferry.core.messages import Message, say
from torchferry.numerics.attribution import Attribution
from torchferry.numerics.nan import roots as root_calls
from torchferry.numerics.nan.memory import Buffers
from torchferry.numerics.nan.roots import RootCall
from torchferry.numerics.nan.tape import MOST, Tape
from torchferry.numerics.statistics import FINITE, has_values, kind_of

MOST_ROOTS = 256
"""Calls of outermost modules that are kept of one step."""


class StepMemory:
    """Keeps of a step what it takes to go through it.

    Attributes:
        roots: Calls of outermost modules.
        tape: Calls between them.
        losses: What backward was called on, with the gradients it was given.
        dropped: Calls of outermost modules that were too many to keep.
        seen: All calls of outermost modules.
        broken: Why nothing is kept any more; empty while all is well.
        when_alone: Called with a call that records no gradients, when it has returned.
    """

    def __init__(self, attribution: Attribution, above: TorchDispatchMode | None = None) -> None:
        self.roots: list[RootCall] = []
        self.losses: list[tuple[list[Tensor], list[Tensor | None]]] = []
        self.tape = Tape(above)
        self.paused = False
        self.dropped = 0
        self.seen = 0
        self.off = False
        self.broken = ""
        self.when_alone: Callable[[RootCall], None] | None = None
        self._buffers = Buffers()
        self._running: RootCall | None = None
        self._modules = attribution.modules
        self._backward: Any = None

    def start(self) -> None:
        """Begin to keep."""
        self._modules.on_root.append(self._enters)
        self._modules.on_root_left.append(self._leaves)
        original = self._backward = torch.autograd.backward
        memory = self

        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
            memory._backward_begins(tensors, grad_tensors)
            original(tensors, grad_tensors, *args, **kwargs)

        torch.autograd.backward = backward

    def stop(self) -> None:
        """Keep no more."""
        self.tape.lift()
        self._modules.on_root.remove(self._enters)
        self._modules.on_root_left.remove(self._leaves)
        torch.autograd.backward = self._backward
        self.clear()

    def clear(self) -> None:
        """Forget a step."""
        self.tape.lift()
        self.tape.clear()
        self.roots = []
        self.losses = []
        self.dropped = 0

    def limits(self) -> list[Message]:
        """Return what of the step was too much to keep."""
        said = []
        if self.dropped:
            said.append(
                say(
                    "of {calls} calls of outermost modules in this step, the first {kept} were looked at",
                    calls=len(self.roots) + self.dropped,
                    kept=MOST_ROOTS,
                )
            )
        if self.tape.full:
            said.append(say("of the calls outside of modules in this step, the first {kept} were looked at", kept=MOST))
        return said

    def _enters(self, module: nn.Module, args: Any) -> None:
        try:
            self._begin(module, args)
        except Exception:  # the program goes on whatever happens here
            self._give_up()

    def _begin(self, module: nn.Module, args: Any) -> None:
        self._running = None
        if self.paused or self.off or torch._C._current_autograd_node() is not None:
            return
        self.tape.lift()
        self.seen += 1
        if len(self.roots) < MOST_ROOTS:
            self._running = root_calls.begin(module, args, self._buffers)
        else:
            self.dropped += 1

    def _leaves(self, module: nn.Module, args: Any, result: Any) -> None:
        call, self._running = self._running, None
        if call is None or call.module is not module or result is None:
            return
        try:
            root_calls.end(call, result)
        except Exception:
            self._give_up()
            return
        if call.grad or self.when_alone is None:
            self.roots.append(call)
        else:
            self.when_alone(call)
        if call.grad:
            self.tape.lay()

    def _give_up(self) -> None:
        """Keep nothing any more, and say why: what is not looked at must not pass for well."""
        self.broken = traceback.format_exc()
        self.paused = self.off = True
        self.clear()

    def _backward_begins(self, tensors: Any, gradients: Any) -> None:
        self.tape.lift()
        if self.paused or torch._C._current_autograd_node() is not None:
            return
        ones = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        given = [None] * len(ones) if gradients is None else gradients
        self.losses.append((ones, [given] if isinstance(given, Tensor) else list(given)))


def bad_gradients(optimizer: Optimizer, losses: Sequence[Tensor]) -> bool:
    """Whether a gradient of the optimizer's parameters or a loss is not finite. Reads each device once."""
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = defaultdict(list)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is not None and has_values(gradient):
                groups[gradient.device, gradient.dtype].append(gradient)
    totals: dict[torch.device, list[Tensor]] = defaultdict(list)
    for loss in losses:
        if has_values(loss):
            totals[loss.device].append(loss.detach().sum().to(torch.float32))
    for (device, _), gradients in groups.items():
        totals[device] += torch._foreach_norm(gradients, 2, dtype=torch.float32)
    for norms in totals.values():
        if not math.isfinite(float(torch.stack(norms).sum())):
            return any(kind_of(one) != FINITE for ones in (*groups.values(), losses) for one in ones)
    return False


def bad_outputs(calls: Sequence[RootCall]) -> bool:
    """Whether a result of these calls is not finite. Reads the device."""
    return any(kind_of(one) != FINITE for call in calls for one in call.outputs)
