"""What a program computes outside of its modules, from their outputs to the loss: few calls, kept with their values.

The calls can be looked at after the step, and run again with gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from torchferry.core.userlines import Place, UserLines
from torchferry.numerics.framework.kinds import Kind
from torchferry.numerics.framework.operators import Operator, operator
from torchferry.numerics.framework.subclasses import of_modes, unwrap_themselves

MOST = 4000
"""Calls that are kept of one step: what comes after is not looked at, and this is said."""


class Taped(NamedTuple):
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
    place: Place


class Tape(TorchDispatchMode):
    """A dispatch mode that stands between modules: `lay` puts it in place, `lift` takes it away.

    A program that compiles what it computes between modules compiles it as it does without us: what torch then calls
    is kept, and what it has fused is not seen.

    Args:
        above: The mode of ours that is active all the time, if there is one.
    """

    supports_higher_order_operators = True

    def __init__(self, above: TorchDispatchMode | None = None) -> None:
        super().__init__()
        self._above = [] if above is None else [above]
        self.calls: list[Taped] = []
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
            self.__enter__()

    def lift(self) -> None:
        """Keep no more."""
        if not self._laid:
            return
        stack = _get_current_dispatch_mode_stack()
        if stack and stack[-1] is self:
            self._laid = False
            self.__exit__(None, None, None)

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
        known = operator(func)
        if torch._C._current_autograd_node() is None and known.kind is not Kind.BOOKKEEP:
            if len(self.calls) < MOST:
                self.calls.append(Taped(known, args, kwargs or {}, out, self._lines.of(sys._getframe(1))))
            else:
                self.full = True
        return out


def again(calls: Sequence[Taped], leaves: dict[int, Tensor], at: Callable[[Place], None]) -> dict[int, Tensor]:
    """Run calls again with gradients.

    Args:
        calls: What was kept.
        leaves: What stands for the tensors that the calls began with, by the identity of these.
        at: Told the user's line of each call before it runs.

    Returns:
        What stands for each tensor, by its identity.
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
        for one, other in zip(old, new, strict=False):
            _pair(one, other, standing)
