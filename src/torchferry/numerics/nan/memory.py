"""What must be as it was for a forward to run again: random states, buffers, autocast. Nothing here waits."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchferry.core.messages import Message, say


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
                    "{what} cannot be copied, so a step that runs again uses it as it is: {error}",
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
                self._devices.append((device, _module(device).get_rng_state(device)))
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
            _module(device).set_rng_state(state, device)


def _module(device: torch.device) -> Any:
    return torch.get_device_module(device.type)


def devices_of(module: nn.Module, args: Sequence[Any]) -> list[torch.device]:
    """Return the devices, beside the CPU, of a module's first parameter and of its arguments."""
    found = [parameter.device for parameter in _first(module)]
    found += [value.device for value in args if isinstance(value, Tensor)]
    return [device for device in dict.fromkeys(found) if device.type not in {"cpu", "meta"}]


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
    for one in module.modules():
        for name, buffer in one._buffers.items():
            if buffer is None or id(buffer) in seen:
                continue
            seen.add(id(buffer))
            if buffer.is_inference():
                yield buffer, -1
            elif name.startswith("running_"):
                batches = one._buffers.get("num_batches_tracked")
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
    name = next((name for name, one in module.named_buffers() if one is buffer), "")
    return say("the buffer {name}", name=f"{type(module).__name__}.{name}")


@contextlib.contextmanager
def buffers_as(kept: Sequence[Saved], omitted: Omitted) -> Iterator[None]:
    """Give buffers their old values within the context, and what they have now after it."""
    now = [one.buffer.detach().clone() for one in kept]
    for one in kept:
        _write(one.buffer, one.values, omitted)
    try:
        yield
    finally:
        for one, values in zip(kept, now, strict=True):
            _write(one.buffer, values, omitted)


def _write(buffer: Tensor, values: Tensor, omitted: Omitted) -> None:
    try:
        with torch.inference_mode(buffer.is_inference()), torch.no_grad():
            buffer.copy_(values)
    except Exception as error:  # of a subclass or a plugin, or its elements share memory
        if not _equal(buffer, values):
            omitted.add(say("a buffer of shape {shape}", shape=list(buffer.shape)), error)


def _equal(one: Tensor, other: Tensor) -> bool:
    try:
        return torch.equal(one, other)
    except Exception:  # the same
        return False


class Autocast:
    """The state of autocast for a type of device."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._states = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in dict.fromkeys([*kinds, "cpu"])
            if torch.amp.is_autocast_available(kind)
        ]

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Give the same state within the context."""
        with contextlib.ExitStack() as stack:
            for kind, enabled, dtype in self._states:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=False))
            yield
