"""What it takes to run a step, or a forward of it, again: states as they were, and calls kept by reference.

Nothing here waits.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from torchferry.core.messages import Message, say
from torchferry.core.userlines import UserLine, UserLines
from torchferry.numerics.framework import torch_versions
from torchferry.numerics.framework.dispatch import of_modes, unwrap_themselves, without_dispatch_modes
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import Operator, operator
from torchferry.numerics.framework.other_ways import OTHER_WAYS, SeeingMode
from torchferry.numerics.framework.torch_versions import device_module

# What must be as it was for a forward to run again: random states, buffers, autocast. Nothing here waits.


class Omitted:
    """What could not be kept for a step to run again, and why. It is said, and everything else goes on."""

    def __init__(self) -> None:
        self._reasons: dict[str, Message] = {}

    def add(self, what: Message, error: Exception) -> None:
        """Note something that cannot be copied: a buffer, or a random state."""
        if len(self._reasons) < _MOST_OMITTED:
            first = str(error).strip().partition("\n")[0][:200] or type(error).__name__
            self._reasons.setdefault(
                what.render("en"),
                say(
                    "{what} cannot be copied, so a step that runs again uses its current value: {error}",
                    what=what,
                    error=first,
                ),
            )

    def messages(self) -> list[Message]:
        """Return a message for each."""
        return list(self._reasons.values())


_MOST_OMITTED = 100


class RandomState:
    """The random states of Python, numpy, the CPU and the devices that a program uses."""

    def __init__(self, devices: Sequence[torch.device], omitted: Omitted | None = None) -> None:
        self._python = random.getstate()
        self._numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
        self._cpu = torch.get_rng_state()
        self._devices: list[tuple[torch.device, Any]] = []
        for device in devices:
            try:
                self._devices.append((device, device_module(device.type).get_rng_state(device)))
            except Exception as error:  # noqa: PERF203 - few, and rarely
                if omitted is not None:
                    omitted.add(say("the random state of {device}", device=device), error)

    def restore(self) -> None:
        """Set the states again."""
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        torch.set_rng_state(self._cpu)
        for device, state in self._devices:
            device_module(device.type).set_rng_state(state, device)


def devices_of(module: nn.Module, args: Sequence[Any]) -> list[torch.device]:
    """Return the devices, beside the CPU, of a module's first parameter and of its arguments."""
    devices = [parameter.device for parameter in _first(module)]
    devices += [value.device for value in args if isinstance(value, Tensor)]
    return [device for device in dict.fromkeys(devices) if device.type not in {"cpu", "meta"}]


def _first(module: nn.Module) -> Iterator[Tensor]:
    parameter = next(module.parameters(), None)
    if parameter is not None:
        yield parameter


def version(tensor: Tensor) -> int:
    """Return how often a tensor was written to; 0 for tensors of inference mode, which do not count it."""
    return 0 if tensor.is_inference() else tensor._version


class Saved(NamedTuple):
    """A buffer with the values that it had.

    Attributes:
        buffer: The buffer.
        version: How often it had been written to, as far as torch counts.
        values: A copy.
    """

    buffer: Tensor
    version: int
    values: Tensor


def _versions(module: nn.Module) -> Iterator[tuple[Tensor, int]]:
    """Yield each buffer and how often it was written to; -1 where nobody counts.

    torch does not count what a batch norm writes to its running statistics, but it counts their batches.
    """
    seen: set[int] = set()
    for submodule in module.modules():
        for name, buffer in submodule._buffers.items():
            if buffer is None or id(buffer) in seen:
                continue
            seen.add(id(buffer))
            if buffer.is_inference():
                yield buffer, -1
            elif name.startswith("running_"):
                batches = submodule._buffers.get("num_batches_tracked")
                yield buffer, -1 if batches is None else version(buffer) + version(batches)
            else:
                yield buffer, version(buffer)


class Buffers:
    """Copies of a module's buffers as they were, made anew for those alone that have changed since the last time.

    A mask that never changes is copied once. A buffer that cannot be copied, as a sparse one where the device's plugin
    does not copy these, is left out.

    Attributes:
        omitted: What could not be kept.
    """

    def __init__(self) -> None:
        self.omitted = Omitted()
        self._held: dict[int, Saved] = {}
        self._refused: dict[int, Tensor] = {}

    def keep(self, module: nn.Module) -> list[Saved]:
        """Return each buffer with a copy of its values now."""
        kept = []
        for buffer, number in _versions(module):
            held = self._held.get(id(buffer))
            if held is None or held.buffer is not buffer or held.version != number or number < 0:
                if self._refused.get(id(buffer)) is buffer:
                    continue
                try:
                    held = Saved(buffer, number, buffer.detach().clone())
                except Exception as error:  # of a subclass or a plugin, which may raise anything
                    self._refused[id(buffer)] = buffer
                    self.omitted.add(_name(module, buffer), error)
                    continue
                self._held[id(buffer)] = held
            kept.append(held)
        return kept


def _name(module: nn.Module, buffer: Tensor) -> Message:
    name = next((name for name, named_buffer in module.named_buffers() if named_buffer is buffer), "")
    return say("the buffer {name}", name=f"{type(module).__name__}.{name}")


@contextlib.contextmanager
def buffers_as(kept: Sequence[Saved], omitted: Omitted) -> Iterator[None]:
    """Give buffers their old values within the context, and what they have now after it."""
    now = [saved.buffer.detach().clone() for saved in kept]
    for saved in kept:
        _write(saved.buffer, saved.values, omitted)
    try:
        yield
    finally:
        for saved, values in zip(kept, now, strict=True):
            _write(saved.buffer, values, omitted)


def _write(buffer: Tensor, values: Tensor, omitted: Omitted) -> None:
    try:
        with torch.inference_mode(buffer.is_inference()), torch.no_grad():
            buffer.copy_(values)
    except Exception as error:  # of a subclass or a plugin, or its elements share memory
        if not _equal(buffer, values):
            omitted.add(say("a buffer of shape {shape}", shape=list(buffer.shape)), error)


def _equal(value: Tensor, other: Tensor) -> bool:
    try:
        return torch.equal(value, other)
    except Exception:  # the same
        return False


class Autocast:
    """The state of autocast for a type of device."""

    def __init__(self, kinds: Sequence[str]) -> None:
        states = ((kind, torch_versions.autocast_state(kind)) for kind in dict.fromkeys([*kinds, "cpu"]))
        self._states = [(kind, *state) for kind, state in states if state is not None]

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Give the same state within the context."""
        with contextlib.ExitStack() as stack:
            for kind, enabled, dtype in self._states:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=False))
            yield


# What a program computes outside of its modules, from their outputs to the loss: few calls, kept with their values.
#
# The calls can be looked at after the step, and run again with gradients.


MOST = 4000
"""Calls that are kept of one step: what comes after is not looked at, and this is said."""


class TapedCall(NamedTuple):
    """A call outside of modules.

    Attributes:
        operator: What was called.
        args: As they were given; what the call wrote to has its new values.
        kwargs: Likewise.
        out: What came of it.
        place: The user's line.
    """

    operator: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    place: UserLine


class Tape(SeeingMode):
    """A dispatch mode that is between modules: `lay` puts it in place, `lift` takes it away.

    A program that compiles what it computes between modules compiles it as it does without us: what torch then calls
    is kept, and what it has fused is not seen.

    Args:
        above: The mode of ours that is active all the time, if there is one.
    """

    supports_higher_order_operators = True

    def __init__(self, above: TorchDispatchMode | None = None) -> None:
        super().__init__()
        self._above = [] if above is None else [above]
        self.calls: list[TapedCall] = []
        self.full = False
        self._laid = False
        self._lines = UserLines()

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Tell torch, in versions that ask for this, that it compiles in spite of us."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Tell torch that it compiles in spite of us."""
        return True

    @property
    def laid(self) -> bool:
        """Whether calls are kept."""
        return self._laid

    def lay(self) -> None:
        """Begin to keep calls of this thread, unless a mode of the program's own is active."""
        if not self._laid and _get_current_dispatch_mode_stack() == self._above:
            self._laid = True
            OTHER_WAYS.ask()
            self.__enter__()

    def lift(self) -> None:
        """Keep no more."""
        if not self._laid:
            return
        stack = _get_current_dispatch_mode_stack()
        if stack and stack[-1] is self:
            self._laid = False
            self.__exit__(None, None, None)
            OTHER_WAYS.leave()

    def clear(self) -> None:
        """Forget the calls of a step."""
        self.calls = []
        self.full = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types and unwrap_themselves(types):
            return func(*args, **(kwargs or {})) if of_modes(types) else NotImplemented
        out = func(*args, **kwargs) if kwargs else func(*args)
        self._keep(operator(func), args, kwargs or {}, out)
        return out

    def not_seen(self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Keep a call that was made without this mode: run again, it takes the same way."""
        self._keep(operator(overload), args, kwargs, out)

    def _keep(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        if torch._C._current_autograd_node() is None and op.kind is not OpKind.BOOKKEEP:
            if len(self.calls) < MOST:
                self.calls.append(TapedCall(op, args, kwargs, out, self._lines.of(sys._getframe(2))))
            else:
                self.full = True


def again(calls: Sequence[TapedCall], leaves: dict[int, Tensor], at: Callable[[UserLine], None]) -> dict[int, Tensor]:
    """Run calls again with gradients.

    Args:
        calls: What was kept.
        leaves: What represents the tensors that the calls began with, by the identity of these.
        at: Told the user's line of each call before it runs.

    Returns:
        What represents each tensor, by its identity.
    """
    standing = dict(leaves)

    def stand_in(value: Any) -> Any:
        if isinstance(value, Tensor):
            return standing.get(id(value), value.detach())
        if type(value) in {list, tuple}:
            return type(value)(stand_in(part) for part in value)
        return value

    for call in calls:
        at(call.place)
        out = call.operator.overload(
            *map(stand_in, call.args), **{name: stand_in(value) for name, value in call.kwargs.items()}
        )
        _pair(call.out, out, standing)
    return standing


def _pair(old: Any, new: Any, standing: dict[int, Tensor]) -> None:
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        standing[id(old)] = new
    elif isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        for before, other in zip(old, new, strict=False):
            _pair(before, other, standing)


# The calls of outermost modules in a step, with what it takes to run them again. References, not copies.

_CALLS = (nn.Module._call_impl.__code__,)


@dataclass
class RootCall:
    """A call of an outermost module.

    Attributes:
        module: The module, with its wrappers.
        args: Positional arguments.
        kwargs: Keyword arguments; None where they could not be read.
        versions: How often each argument had been written to.
        random: Random states before the call.
        buffers: Buffers with their values before the call.
        autocast: State of autocast.
        grad: Whether gradients were recorded.
        parameter: The first parameter that gradients are computed for, or None.
        version: How often it had been written to.
        outputs: Tensors of the result.
        gradients: What backward gave for each output, by its number.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    versions: list[int]
    random: RandomState
    buffers: list[Saved]
    autocast: Autocast
    grad: bool
    parameter: nn.Parameter | None
    version: int
    outputs: list[Tensor] = field(default_factory=list)
    gradients: dict[int, Tensor] = field(default_factory=dict)

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return list(leaves([list(self.args), self.kwargs or {}]))

    @property
    def written(self) -> bool:
        """Whether an argument was written to since."""
        return self.versions != [version(tensor) for tensor in self.inputs]


@without_dispatch_modes
def begin(module: nn.Module, args: Any, buffers: Buffers) -> RootCall:
    """Note a call that begins. Called from a hook of the call."""
    args = args if isinstance(args, tuple) else (args,)
    kwargs = _kwargs()
    given = list(leaves([list(args), kwargs or {}]))
    devices = devices_of(module, given)
    trained = next(
        (parameter for parameter in module.parameters() if parameter.requires_grad and parameter.is_leaf), None
    )
    return RootCall(
        module,
        args,
        kwargs,
        [version(tensor) for tensor in given],
        RandomState(devices, buffers.omitted),
        buffers.keep(module),
        Autocast([device.type for device in devices]),
        torch.is_grad_enabled(),
        trained,
        0 if trained is None else version(trained),
    )


def end(call: RootCall, result: Any) -> None:
    """Note what came of a call, and follow its gradients."""
    call.outputs = list(leaves(result))
    for number, output in enumerate(call.outputs):
        if output.requires_grad:
            with contextlib.suppress(RuntimeError):  # of a kind that takes no hook: its gradient is not followed
                output.register_hook(_keeper(call.gradients, number))


def _keeper(gradients: dict[int, Tensor], number: int) -> Any:
    """Return a hook. It must not know the call, which knows the output: nobody could free the two."""

    def keep(gradient: Tensor) -> None:
        held = gradients.get(number)
        gradients[number] = gradient if held is None else held + gradient  # backward may run twice

    return keep


def differentiated(calls: Sequence[RootCall]) -> list[RootCall]:
    """Return the calls that backward went through."""
    return [call for call in calls if call.gradients]


def taking_part(calls: Sequence[RootCall]) -> list[RootCall]:
    """Return the calls that belong to a step.

    Where backward ran, a forward that records gradients and that backward left out has no part in it.
    """
    if not differentiated(calls):
        return list(calls)
    return [call for call in calls if call.gradients or not call.grad]


def leaves(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in arguments or results: in lists, dictionaries and records at any depth.

    A record that leads back to itself is gone through once.
    """
    if isinstance(value, Tensor):
        yield value
    else:
        yield from _leaves(value, set())


def _leaves(value: Any, above: set[int]) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
        return
    if isinstance(value, (list, tuple)):
        parts: Any = value
    elif isinstance(value, dict):
        parts = value.values()
    elif is_dataclass(value) and not isinstance(value, type):
        parts = (getattr(value, item.name, None) for item in fields(value))
    else:
        return
    if id(value) in above or len(above) >= _DEPTH:
        return
    above.add(id(value))
    for part in parts:
        yield from _leaves(part, above)
    above.discard(id(value))


_DEPTH = 200
"""Lists within lists: what lies deeper is not looked for."""


def _kwargs() -> dict[str, Any] | None:
    """Return the keyword arguments of the module call that is being made: torch's hooks for all modules have none."""
    frame = sys._getframe(2)
    for _ in range(10):
        if frame.f_code in _CALLS:
            kwargs = frame.f_locals.get("kwargs")
            return dict(kwargs) if isinstance(kwargs, dict) else None
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None
