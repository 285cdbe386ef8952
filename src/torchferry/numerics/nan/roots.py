"""The calls of outermost modules in a step, with what it takes to run them again. References, not copies."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchferry.numerics.framework.unseen import unseen
from torchferry.numerics.nan.memory import Autocast, Buffers, RandomState, Saved, devices_of, version

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


@unseen
def begin(module: nn.Module, args: Any, buffers: Buffers) -> RootCall:
    """Note a call that begins. Called from a hook of the call."""
    args = args if isinstance(args, tuple) else (args,)
    kwargs = _kwargs()
    given = list(leaves([list(args), kwargs or {}]))
    devices = devices_of(module, given)
    trained = next((one for one in module.parameters() if one.requires_grad and one.is_leaf), None)
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
        parts = (getattr(value, one.name, None) for one in fields(value))
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
