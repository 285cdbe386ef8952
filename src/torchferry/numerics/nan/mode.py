"""Watches every operator: a slot for each result, and which results it was made of. Waits for nothing.

For a step that is known to be bad and runs again there is a mode that looks at each call at once, and stops at the
first that makes something worse of what it was given. It waits for the device at every call.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchferry.core.userlines import NOWHERE, UserLine, UserLines
from torchferry.numerics.framework.attribution import BACKWARD, FORWARD, OPTIMIZER, RECOMPUTE, Attribution, Where
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
from torchferry.numerics.framework.statistics import (
    COMPLEX,
    FINITE,
    INFINITE,
    KINDS,
    NAN,
    NARROW,
    Statistics,
    described,
    has_values,
    parts,
    worst,
)

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

    def not_seen(self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Look at a call that was made without this mode: at what it gave, as it cannot be looked into."""
        op = operator(overload)
        where = self._attribution.where(op)
        if op not in self._selection or len(self.origins) >= self._most:
            return
        self.calls += 1
        self._follow(where)
        kind = _worst(list(op.results(args, kwargs, out)))
        if kind > _worst([*args, *kwargs.values()]):
            self._found(op, where, kind, _before(op, args, kwargs), out, (args, kwargs))

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


# One number for each result of a step, on the device that has the result; read together when the step has ended.
#
# The number is the sum in float32: no NaN and no infinity can be missed by it, it needs no memory of its own, and the
# device is not waited for. A sum of finite numbers beyond 3.4e38 is infinite too; whoever reads it looks again.


CHUNK = 4096
"""Slots that are made at once."""

_DIMENSIONS = [list(range(rank)) for rank in range(65)]


class Slots:
    """The slots of one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._chunks: list[Tensor] = []
        self._slots: list[Tensor] = []
        self.used = 0

    def take(self, tensor: Tensor) -> int:
        """Sum a tensor into the next slot and return the slot's number."""
        if tensor.dtype in COMPLEX:
            tensor = torch.view_as_real(tensor.resolve_conj())
        elif tensor.dtype in NARROW:
            tensor = tensor.to(torch.float32)
        number = self.used
        if number == len(self._slots):
            self._grow()
        torch.sum(tensor, dim=_DIMENSIONS[tensor.dim()], dtype=torch.float32, out=self._slots[number])
        self.used = number + 1
        return number

    def read(self) -> list[int]:
        """Return FINITE, INFINITE or NAN for each slot that was used, and use them anew: the one wait of a step."""
        used, self.used = self.used, 0
        kinds: list[int] = []
        for chunk in self._chunks:
            taken = min(used - len(kinds), CHUNK)
            if taken <= 0:
                break
            values = chunk[:taken].cpu()
            if bool(torch.isfinite(values).all()):
                kinds += [FINITE] * taken
            else:
                kinds += [
                    NAN if math.isnan(value) else INFINITE if math.isinf(value) else FINITE for value in values.tolist()
                ]
        return kinds

    def _grow(self) -> None:
        chunk = torch.zeros(CHUNK, dtype=torch.float32, device=self._device)
        self._chunks.append(chunk)
        self._slots += chunk.unbind()


_LEFT = frozenset({OpKind.BOOKKEEP, OpKind.COMMUNICATE})

MOST = 1 << 16
"""Results of one step that are kept: then they are read, and of those that are finite nothing has to be known."""


class OperatorWatch(WholeMode):
    """A dispatch mode that sums each result into a slot.

    What optimizers do inside is left out: their parameters are looked at once, after the step.

    Attributes:
        active: Whether results are looked at.
        untested: Results that could not be looked at, by operator.
        dropped: Results of this step that were too many to keep.
        given: Results that are what calls of outermost modules gave which are not kept.
        gives: Whether each of these calls gave something.
    """

    def __init__(self, attribution: Attribution, selection: OperatorFilter) -> None:
        super().__init__()
        self.active = True
        self.untested: dict[str, int] = {}
        self.dropped = 0
        self.given: set[int] = set()
        self.gives = True
        self._attribution = attribution
        self._selection = selection
        self._slots: dict[torch.device, Slots] = {}
        self._places: list[tuple[Slots, int] | int] = []
        """Where the kind of each result is, or the kind itself."""
        self._results: list[CallResult] = []
        self._makers: dict[int, int] = {}
        self._full = False
        self._numbering = 0
        """How often the results were given other numbers."""
        self._lock = threading.Lock()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types and unwrap_themselves(types):
            return (
                func(*args, **(kwargs or {})) if of_modes(types) else NotImplemented
            )  # it unwraps itself; what it calls inside comes here
        if not self.uncompiled:
            self.keep_uncompiled()
        if is_higher_order(func):
            out, seen = self.opened(func, args, kwargs or {})
            if seen:
                return out  # what it is made of was looked at
        else:
            out = func(*args, **kwargs) if kwargs else func(*args)
        if self.active:
            op = operator(func)
            if op.kind not in _LEFT:
                try:
                    self._note(op, args, kwargs or {}, out)
                except Exception:  # a tensor of a kind that cannot be looked at must not end the program
                    self.untested[op.name] = self.untested.get(op.name, 0) + 1
        return out

    def not_seen(self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Take note of a call that was made without this mode: of what it gave, and that it was not looked into."""
        op = operator(overload)
        self.untested[op.name] = self.untested.get(op.name, 0) + 1
        with torch.no_grad():
            self._note(op, args, kwargs, out)

    def gave(self, outputs: Iterable[Tensor]) -> None:
        """Note what an outermost module gave, whose call is not kept."""
        with self._lock:
            makers = {self.maker(output) for output in outputs}
            self.given |= makers
            self.gives = self.gives and bool(makers)

    def taken(self) -> tuple[list[CallResult], list[int]]:
        """Return the results since the last call with their kinds, and begin anew. Reads each device once."""
        with self._lock:
            return self._taken()

    def _taken(self) -> tuple[list[CallResult], list[int]]:
        results, places = self._results, self._places
        self._results, self._places, self._makers, self.given = [], [], {}, set()
        self._full = False
        kinds = {id(slots): slots.read() for slots in self._slots.values()}
        return results, [place if isinstance(place, int) else kinds[id(place[0])][place[1]] for place in places]

    def _compact(self) -> None:
        """Forget the results that are finite, in a step that does not end: as a parent each is like none."""
        with self._lock:
            makers, given = self._makers, self.given
            results, kinds = self._taken()
            used = {parent for result in results for parent in result.parents}
            kept = _needed(results, kinds, used, set(makers.values()))
            now = {old: new for new, old in enumerate(kept)}
            used &= now.keys()
            for old in kept:
                result = results[old]
                self._results.append(result._replace(parents=tuple(now.get(parent, -1) for parent in result.parents)))
                self._places.append(kinds[old])
            if used:  # that something took them stays known, though it was finite
                last = results[max(used)]
                self._results.append(last._replace(parents=tuple(sorted(now[parent] for parent in used))))
                self._places.append(FINITE)
            self.given = {now[number] for number in given if number in now}
            self._makers = {key: now[number] for key, number in makers.items() if number in now}
            self._full = len(self._results) > MOST // 2
            self._numbering += 1
        self._attribution.next_step()

    def forget(self) -> None:
        """Begin anew, and read nothing."""
        with self._lock:
            self._results, self._places, self._makers, self.given = [], [], {}, set()
            self._full = False
            self.gives = True
            self.dropped = 0
            for slots in self._slots.values():
                slots.used = 0

    def maker(self, tensor: Tensor) -> int:
        """Return the number of the result that a tensor holds, or -1."""
        return _maker(self._makers, tensor)

    def _note(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        where = self._attribution.where(op)
        if where.phase == OPTIMIZER:
            return
        kind = op.kind
        if kind is OpKind.VIEW and not op.written:
            return  # the same storage
        if len(self._results) >= MOST:
            self._compact()
        if self._full:
            self.dropped += 1
            return
        makers, numbering = self._makers, self._numbering
        parents = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, Tensor):
                parents.append(_maker(makers, value))
            elif isinstance(value, (list, tuple)):
                parents += [_maker(makers, part) for part in value if isinstance(part, Tensor)]
        if numbering != self._numbering:  # another thread's call made room: what these were is not known any more
            parents = []
        looked = kind is not OpKind.ALLOCATE and kind is not OpKind.RANDOM and op in self._selection
        for tensor in op.results(args, kwargs, out):
            if looked and has_values(tensor):
                self._take(op, where, tensor, parents)
            elif looked and tensor.layout is not torch.strided and parts(tensor):
                for part in parts(tensor) or ():
                    self._take(op, where, part, parents)
            else:
                self._pass_on(op, tensor, parents)

    def _take(self, op: Operator, where: Where, tensor: Tensor, parents: list[int]) -> None:
        """Look at a result."""
        slots = self._slots.get(tensor.device)
        if slots is None:
            slots = self._slots[tensor.device] = Slots(tensor.device)
        with self._lock:
            try:
                place = slots, slots.take(tensor)
            except (NotImplementedError, RuntimeError):  # a device may lack the sum of a dtype
                self.untested[op.name] = self.untested.get(op.name, 0) + 1
                return
            self._places.append(place)
            self._results.append(CallResult(op, where, tuple(parents)))
            self._makers[tensor.untyped_storage()._cdata] = len(self._results) - 1

    def _pass_on(self, op: Operator, tensor: Tensor, parents: list[int]) -> None:
        """A result that is not looked at is as bad as the newest of what it was made of."""
        try:
            key = tensor.untyped_storage()._cdata
        except (NotImplementedError, RuntimeError):  # sparse, or of a subclass: it has no storage of its own
            self.untested[op.name] = self.untested.get(op.name, 0) + 1
            return
        newest = max(parents, default=-1)
        if newest >= 0 and op.kind is not OpKind.ALLOCATE:
            self._makers[key] = newest
        else:
            self._makers.pop(key, None)


def _needed(results: list[CallResult], kinds: list[int], used: set[int], held: set[int]) -> list[int]:
    """Return the results that are not finite and of which something may be to come: nothing took them up to now, or
    they are still in memory, or they led to one of these."""
    needed: set[int] = set()
    for number in range(len(results) - 1, -1, -1):
        if kinds[number] != FINITE and (number not in used or number in held or number in needed):
            needed.add(number)
            needed.update(parent for parent in results[number].parents if parent >= 0 and kinds[parent] != FINITE)
    return sorted(needed)


def _maker(makers: dict[int, int], tensor: Tensor) -> int:
    try:
        return makers.get(tensor.untyped_storage()._cdata, -1)
    except (NotImplementedError, RuntimeError):  # sparse, or of a subclass: it is as bad as the newest of its parts
        return max((_maker(makers, part) for part in parts(tensor) or () if part is not tensor), default=-1)
