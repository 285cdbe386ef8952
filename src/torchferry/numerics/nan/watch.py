"""The level that can always stay on: one norm of the gradients a step; a bad step is run again and gone through.

No operator is watched while all is well. What it takes to run a step again is kept by reference until the step ends:
arguments of the outermost modules, random states, copies of buffers that change, the few calls that make the loss.
"""

from __future__ import annotations

import math
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.framework import torch_versions
from torchferry.numerics.framework.attribution import Attribution
from torchferry.numerics.framework.dispatch import capturing
from torchferry.numerics.framework.statistics import COMPLEX, FINITE, NARROW, described_kind, kind_of, parts, worst
from torchferry.numerics.nan import rerun as root_calls
from torchferry.numerics.nan.rerun import MOST, Buffers, RootCall, Tape, differentiated, version

MOST_ROOTS = 256
"""Calls of outermost modules that are kept of one step."""

_KINDS = 100
"""Different failures of the tool that are counted."""


class StepMemory:
    """Keeps of a step what it takes to go through it.

    Attributes:
        roots: Calls of outermost modules.
        tape: Calls between them.
        losses: What backward was called on, with the gradients it was given.
        dropped: Calls of outermost modules that were too many to keep.
        seen: All calls of outermost modules.
        failures: How often the tool itself failed, by the error: what it was looking at then was not looked at.
        broken: The trace of its first failure; empty while all is well.
        when_alone: Called with a call that records no gradients, when it has returned; and with one that is too many to
            keep, in a program of which `when_updated` is to be told.
        when_updated: Called before a call of an outermost module where backward ran before it and the program has used
            the gradients since, which in a program without an optimizer of torch's is the end of a step; or where the
            calls are too many to keep. None where an optimizer says it.
        when_capturing: Called when the program has begun, or ended, to capture a graph of the device's.
        forgotten: Calls of outermost modules of this step that were looked at and are not kept any more.
        capturing: Whether a graph is being captured.
        captured: Calls that went into a graph: they are neither looked at nor, when the graph runs, seen.
        omitted: What could not be kept for a step to run again.
    """

    def __init__(self, attribution: Attribution, above: TorchDispatchMode | None = None) -> None:
        self.roots: list[RootCall] = []
        self.losses: list[tuple[list[Tensor], list[Tensor | None]]] = []
        self.tape = Tape(above)
        self.paused = False
        self.dropped = 0
        self.seen = 0
        self.failures: dict[str, int] = {}
        self.broken = ""
        self.when_alone: Callable[[RootCall], None] | None = None
        self.when_updated: Callable[[], None] | None = None
        self.when_capturing: Callable[[], None] | None = None
        self.forgotten = 0
        self.capturing = False
        self.captured = 0
        self._buffers = Buffers()
        self.omitted = self._buffers.omitted
        self._running: RootCall | None = None
        self._over = False
        self._was_laid = False
        self._modules = attribution.modules
        self._backward: Any = None
        self._gradient: tuple[Tensor, int, int] | None = None
        """A parameter, and which gradient it had when backward had run: its identity and version."""

    def start(self) -> None:
        """Begin to keep."""
        self._modules.on_root.append(self._enters)
        self._modules.on_root_left.append(self._leaves)
        original = self._backward = torch.autograd.backward
        memory = self

        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
            memory._backward_begins(tensors, grad_tensors)
            original(tensors, grad_tensors, *args, **kwargs)
            memory._backward_ended()

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
        self.forgotten = 0
        self._gradient = None

    def forget(self) -> None:
        """Forget the calls of a step that goes on: they were looked at."""
        forgotten = self.forgotten + len(self.roots) + self.dropped
        self.clear()
        self.forgotten = forgotten

    def limits(self) -> list[Message]:
        """Return what of the step was too much to keep."""
        said = []
        if self.dropped:
            said.append(
                say_plural(
                    "of {count} call of outermost modules in this step, the first {kept} were examined",
                    "of {count} calls of outermost modules in this step, the first {kept} were examined",
                    count=len(self.roots) + self.dropped,
                    kept=MOST_ROOTS,
                )
            )
        if self.forgotten:
            said.append(
                say_plural(
                    "of {count} call of outermost modules in this step, the last {kept} could be run again",
                    "of {count} calls of outermost modules in this step, the last {kept} could be run again",
                    count=self.forgotten + len(self.roots) + self.dropped,
                    kept=len(self.roots),
                )
            )
        if self.tape.full:
            said.append(say("of the calls outside modules in this step, the first {kept} were examined", kept=MOST))
        return said

    def _enters(self, module: nn.Module, args: Any) -> None:
        self._running = None
        self._was_laid = False
        if torch._C._current_autograd_node() is not None:
            return
        captured = capturing()
        if captured != self.capturing:
            self.capturing = captured
            if self.when_capturing is not None:
                self.when_capturing()
        self.captured += captured
        if self.paused or captured:
            return
        self._was_laid = self.tape.laid
        self.tape.lift()
        full = len(self.roots) >= MOST_ROOTS and bool(differentiated(self.roots))
        if self.when_updated is not None and (full or self.updated()):
            self.when_updated()
        try:
            self._begin(module, args)
        except Exception as error:  # the program goes on whatever happens here
            self.failed(error)

    def _begin(self, module: nn.Module, args: Any) -> None:
        self.seen += 1
        self._over = len(self.roots) >= MOST_ROOTS
        self.dropped += self._over
        if not self._over or self.when_updated is not None:
            self._running = root_calls.begin(module, args, self._buffers)

    def _leaves(self, module: nn.Module, args: Any, result: Any) -> None:
        lay, self._was_laid = self._was_laid, False
        try:
            lay = self._end(module, result) or lay
        finally:
            if lay:
                # again too where it was laid before: a part that is compiled is left with the modes that it began with
                self.tape.lay()

    def _end(self, module: nn.Module, result: Any) -> bool:
        """Note that a call ended, and return whether what follows it is to be kept."""
        call, self._running = self._running, None
        if call is None or call.module is not module or result is None:
            return False
        try:
            root_calls.end(call, result)
        except Exception as error:
            self.failed(error)
            return call.grad
        if self.when_alone is not None and (self._over or not call.grad):
            self.when_alone(call)
        else:
            self.roots.append(call)
        return call.grad

    def updated(self) -> bool:
        """Whether backward ran, and the program has used the gradients since: changed a parameter, or dropped them."""
        for root in differentiated(self.roots):
            if root.parameter is not None and root.version != version(root.parameter):
                return True
        if self._gradient is None:
            return False
        parameter, identity, number = self._gradient
        gradient = parameter.grad
        return gradient is None or (id(gradient), version(gradient)) != (identity, number)

    def failed(self, error: Exception) -> None:
        """Note that the tool failed at what it was doing. It goes on: what comes next may be of another kind.

        Must be called where the error is handled.
        """
        self.broken = self.broken or traceback.format_exc()
        text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        if text in self.failures or len(self.failures) < _KINDS:
            self.failures[text] = self.failures.get(text, 0) + 1

    def _backward_begins(self, tensors: Any, gradients: Any) -> None:
        self.tape.lift()
        if self.paused or torch._C._current_autograd_node() is not None:
            return
        ones = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        given = [None] * len(ones) if gradients is None else gradients
        self.losses.append((ones, [given] if isinstance(given, Tensor) else list(given)))

    def _backward_ended(self) -> None:
        """Note which gradient a parameter has now, for a program that uses gradients without an optimizer."""
        if self.paused or self.when_updated is None or torch._C._current_autograd_node() is not None:
            return
        for root in self.roots:
            if root.parameter is not None and root.parameter.grad is not None:
                self._gradient = root.parameter, id(root.parameter.grad), version(root.parameter.grad)
                return


class UnreadTensors:
    """Counts tensors that could not be looked at, by what they are."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}

    def parts(self, tensor: Tensor) -> Sequence[Tensor]:
        """Return the values of a tensor that lie here; one that cannot be read is counted."""
        held = parts(tensor)
        if held is None:
            self.count(tensor)
            return ()
        return held

    def count(self, tensor: Tensor) -> None:
        """Count a tensor that cannot be read."""
        kind = described_kind(tensor)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1


def gradients_of(optimizer: Optimizer) -> list[Tensor]:
    """Return the gradients that the optimizer's parameters have now."""
    return [
        parameter.grad
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.grad is not None
    ]


def bad_gradients(optimizer: Optimizer, losses: Iterable[Tensor], unread: UnreadTensors) -> bool:
    """Whether a gradient of the optimizer's parameters or a loss is not finite. Reads each device once."""
    return bad_tensors(gradients_of(optimizer), losses, unread)


def bad_tensors(tensors: Iterable[Tensor], few: Iterable[Tensor], unread: UnreadTensors) -> bool:
    """Whether a tensor is not finite. Reads each device once.

    Args:
        tensors: Many tensors, which are taken together.
        few: Tensors that are summed one by one.
        unread: Counts those that cannot be looked at.
    """
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        for part in unread.parts(tensor):
            if part.numel():
                plain = _plain(part.detach())
                groups[plain.device, plain.dtype].append(plain)
    losses = [part for loss in few for part in unread.parts(loss)]
    totals: dict[torch.device, list[Tensor]] = defaultdict(list)
    for loss in losses:
        totals[loss.device] += _sizes([_plain(loss.detach())], unread)
    for (device, _), ones in groups.items():
        totals[device] += _sizes(ones, unread)
    for norms in totals.values():
        if norms and not math.isfinite(float(torch.stack(norms).sum())):
            return any(kind_of(value) != FINITE for ones in (*groups.values(), losses) for value in ones)
    return False


def _sizes(ones: list[Tensor], unread: UnreadTensors) -> list[Tensor]:
    """Return numbers in float32 that are finite where all elements of these tensors are.

    They have one dtype. Where the device has no norm of lists in it, each is brought to the CPU, which waits.
    """
    try:
        return torch_versions.norms(ones)
    except (RuntimeError, NotImplementedError):
        pass
    norms = []
    for gradient in ones:
        try:
            norms.append(torch.linalg.vector_norm(gradient.cpu().to(torch.float32)).to(gradient.device))
        except (RuntimeError, NotImplementedError):  # noqa: PERF203 - a plugin may raise anything
            unread.count(gradient)
    return norms


def _plain(tensor: Tensor) -> Tensor:
    """Return the values in a dtype that has all arithmetic."""
    if tensor.dtype in COMPLEX:
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.to(torch.float32) if tensor.dtype in NARROW else tensor


def bad_outputs(calls: Sequence[RootCall]) -> bool:
    """Whether a result of these calls is not finite. Reads the device."""
    return any(worst(output) != FINITE for call in calls for output in call.outputs)
