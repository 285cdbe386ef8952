"""Watches every operator: a slot for each result, and which results it was made of. Waits for nothing."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from torchferry.numerics.framework.attribution import OPTIMIZER, Attribution, Where
from torchferry.numerics.framework.dispatch import WholeMode, is_higher_order, of_modes, unwrap_themselves
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import Operator, OperatorFilter, operator
from torchferry.numerics.framework.statistics import COMPLEX, FINITE, INFINITE, NAN, NARROW, has_values
from torchferry.numerics.nan.inspector import CallResult
from torchferry.numerics.nan.parts import parts

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
