"""Looks at each call at once, and stops at the first that makes something worse of what it was given.

It waits for the device at every call: it is for a step that is known to be bad and runs again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchferry.core.userlines import NOWHERE, UserLine, UserLines
from torchferry.numerics.framework.attribution import BACKWARD, FORWARD, RECOMPUTE, Attribution, Where
from torchferry.numerics.framework.dispatch import (
    WholeMode,
    WithoutDispatchModes,
    is_higher_order,
    of_modes,
    unwrap_themselves,
    without_dispatch_modes,
)
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import Operator, OperatorFilter, argument, operator, tensors
from torchferry.numerics.framework.statistics import FINITE, KINDS, NAN, Statistics
from torchferry.numerics.nan.parts import described, parts, worst

# From what was not finite in a step to where it came from.
#
# Kinds are ordered: finite, infinite, NaN. A call is an *origin* when its result is worse than all that it was given.
# An origin *matters* when something that is not finite reaches the end of the step from it: an infinity that a mask or
# an exponential makes finite again does not.


class CallResult(NamedTuple):
    """One result of a call.

    Attributes:
        operator: What was called.
        where: Where the call belongs.
        parents: Numbers of the results that it was given, by number of the argument; -1 for what no call made.
    """

    operator: Operator
    where: Where
    parents: tuple[int, ...]


def origins(results: Sequence[CallResult], kinds: Sequence[int], ends: Set[int] | None = None) -> list[int]:
    """Return the numbers of the origins that matter, in the order of the calls.

    Args:
        results: All results of a step, in order.
        kinds: FINITE, INFINITE or NAN for each.
        ends: Results that the step is for, such as gradients; without them, those that nothing took.
    """
    bad = {number for number, kind in enumerate(kinds) if kind != FINITE}
    if not bad:
        return []
    reached: set[int] = set()
    waiting = list(bad & (untaken(results) if ends is None else ends))
    while waiting:
        number = waiting.pop()
        if number in reached:
            continue
        reached.add(number)
        waiting += [parent for parent in results[number].parents if parent >= 0 and kinds[parent] != FINITE]
    return [number for number in sorted(reached) if _is_origin(results[number], kinds[number], kinds)]


def untaken(results: Sequence[CallResult]) -> set[int]:
    """Return the numbers of the results that no call took."""
    left = set(range(len(results)))
    for result in results:
        left.difference_update(result.parents)
    return left


def _is_origin(result: CallResult, kind: int, kinds: Sequence[int]) -> bool:
    given = max((kinds[parent] for parent in result.parents if parent >= 0), default=FINITE)
    if kind <= given:
        return False
    if result.operator.kind is OpKind.CONSTANT:
        return kind == NAN  # an infinity is what the program puts there
    if (
        result.operator.kind is OpKind.MOVE
    ):  # what it moved came from elsewhere, such as another rank; or it was rounded
        return kind != NAN and any(parent >= 0 for parent in result.parents)
    return True


_NOT_ITS_DOING = frozenset({OpKind.VIEW, OpKind.ALLOCATE, OpKind.BOOKKEEP, OpKind.RANDOM, OpKind.COMMUNICATE})


@dataclass(frozen=True)
class Origin:
    """A call whose result is worse than all that it was given.

    Attributes:
        operator: `aten.div.Tensor`.
        where: Where the call belongs.
        kind: `inf` or `nan`.
        inputs: What it was given, tensors only; as it was before the call.
        outputs: What it made.
        constants: Its other arguments, as text.
        line: The user's line, `model.py:41`; in backward, the line that is differentiated.
    """

    operator: str
    where: Where
    kind: str
    inputs: tuple[Statistics, ...] = ()
    outputs: tuple[Statistics, ...] = ()
    constants: tuple[str, ...] = ()
    line: str = ""

    def document(self) -> dict[str, Any]:
        """Return it in values that JSON has."""
        return {
            "operator": self.operator,
            "phase": self.where.phase,
            "module": self.where.module,
            "source": self.where.source,
            "kind": self.kind,
            "inputs": [given.document() for given in self.inputs],
            "outputs": [output.document() for output in self.outputs],
            "constants": list(self.constants),
            "line": self.line,
        }


@dataclass
class OperatorCall:
    """A call as it was made, for who wants to write it down: arguments before the call."""

    overload: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Inspector(WholeMode):
    """A dispatch mode that collects origins.

    Attributes:
        origins: Those found, in order.
        made: The calls that they were.
        calls: How many calls were looked at.
    """

    def __init__(self, attribution: Attribution, selection: OperatorFilter, most: int = 64) -> None:
        super().__init__()
        self.origins: list[Origin] = []
        self.made: list[OperatorCall] = []
        self.calls = 0
        self._attribution = attribution
        self._selection = selection
        self._most = most
        self._lines = UserLines()
        self._standing: UserLine | None = None
        self._places: dict[int, UserLine] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types and unwrap_themselves(types):
            return func(*args, **(kwargs or {})) if of_modes(types) else NotImplemented
        kwargs = kwargs or {}
        if not self.uncompiled:
            self.keep_uncompiled()
        op = operator(func)
        where = self._attribution.where(op)
        if op.kind in _NOT_ITS_DOING or op not in self._selection or len(self.origins) >= self._most:
            return func(*args, **kwargs)
        self.calls += 1
        self._follow(where)
        before = _before(op, args, kwargs)
        if is_higher_order(func):
            out, seen = self.opened(func, args, kwargs)
            if seen:
                return out  # what it is made of was looked at
        else:
            out = func(*args, **kwargs)
        kind = _worst(list(op.results(args, kwargs, out)))
        if kind != FINITE and (op.kind is not OpKind.CONSTANT or kind == NAN):
            if kind > _worst([*before[0], *before[1].values()]):
                self._found(op, where, kind, before, out, (args, kwargs))
        return out

    def _found(
        self,
        op: Operator,
        where: Where,
        kind: int,
        before: tuple[tuple[Any, ...], dict[str, Any]],
        out: Any,
        after: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> None:
        values = [*before[0], *before[1].values()]
        with WithoutDispatchModes():
            inputs = tuple(described(tensor) for tensor in tensors(values))
            outputs = tuple(described(result) for result in op.results(*after, out) if parts(result))
        self.origins.append(
            Origin(
                op.name,
                where,
                KINDS[kind],
                inputs,
                outputs,
                tuple(repr(value) for value in values if not any(True for _ in tensors(value)) and value is not None),
                self._line(where),
            )
        )
        self.made.append(OperatorCall(op.overload, *before))

    def stand_at(self, place: UserLine) -> None:
        """Take a line for the user's, in place of the one that runs: what it called is being run again."""
        self._standing = place

    def _here(self) -> UserLine:
        return self._standing or self._lines.of(sys._getframe(3))

    def _follow(self, where: Where) -> None:
        """Note the user's line of a forward call that makes an autograd node: the line that backward will be of."""
        if where.phase in {FORWARD, RECOMPUTE} and torch.is_grad_enabled():
            number = torch._C._autograd._get_sequence_nr() - 1
            if number not in self._places:
                self._places[number] = self._here()

    def _line(self, where: Where) -> str:
        node: Any = torch._C._current_autograd_node()
        if where.phase == BACKWARD and node is not None:
            place = self._places.get(node._sequence_nr(), NOWHERE)
        else:
            place = self._here()
        return f"{place.file}:{place.line}" if place.line and not self._lines.in_library(place.file) else ""


@without_dispatch_modes
def _worst(values: list[Any]) -> int:
    """Return the worst value of tensors. What is computed for it is no part of what is looked at."""
    return max(map(worst, tensors(values)), default=FINITE)


@without_dispatch_modes
def _before(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with copies of those that the call will write to."""
    if not op.written:
        return args, kwargs
    written = {id(tensor) for place in op.written for tensor in tensors(argument(place, args, kwargs, None))}

    def held(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().clone() if id(value) in written else value
        if isinstance(value, (list, tuple)):
            return type(value)(held(part) for part in value) if type(value) in {list, tuple} else value
        return value

    return tuple(held(value) for value in args), {name: held(value) for name, value in kwargs.items()}
