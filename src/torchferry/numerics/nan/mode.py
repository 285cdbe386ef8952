"""Watches every operator: a slot for each result, and which results it was made of. Waits for nothing."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from torchferry.numerics.attribution import OPTIMIZER, Attribution
from torchferry.numerics.nan.origins import Result
from torchferry.numerics.nan.slots import Slots
from torchferry.numerics.operators import Kind, Operator, operator
from torchferry.numerics.selection import Selection
from torchferry.numerics.statistics import has_values
from torchferry.numerics.subclasses import of_modes, unwrap_themselves

_LEFT = frozenset({Kind.BOOKKEEP, Kind.COMMUNICATE})


class OperatorWatch(TorchDispatchMode):
    """A dispatch mode that sums each result into a slot.

    What optimizers do inside is left out: their parameters are looked at once, after the step.
    """

    def __init__(self, attribution: Attribution, selection: Selection) -> None:
        super().__init__()
        self.active = True
        self.untested: dict[str, int] = {}
        self._attribution = attribution
        self._selection = selection
        self._slots: dict[torch.device, Slots] = {}
        self._places: list[tuple[Slots, int]] = []
        self._results: list[Result] = []
        self._makers: dict[int, int] = {}
        self._lock = threading.Lock()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types and unwrap_themselves(types):
            return (
                func(*args, **(kwargs or {})) if of_modes(types) else NotImplemented
            )  # it unwraps itself; what it calls inside comes here
        out = func(*args, **kwargs) if kwargs else func(*args)
        if self.active:
            known = operator(func)
            if known.kind not in _LEFT:
                try:
                    self._note(known, args, kwargs or {}, out)
                except Exception:  # a tensor of a kind that cannot be looked at must not end the program
                    self.untested[known.name] = self.untested.get(known.name, 0) + 1
        return out

    def taken(self) -> tuple[list[Result], list[int]]:
        """Return the results since the last call with their kinds, and begin anew. Reads each device once."""
        with self._lock:
            results, places = self._results, self._places
            self._results, self._places, self._makers = [], [], {}
            kinds = {id(slots): slots.read() for slots in self._slots.values()}
        return results, [kinds[id(slots)][number] for slots, number in places]

    def forget(self) -> None:
        """Begin anew, and read nothing."""
        with self._lock:
            self._results, self._places, self._makers = [], [], {}
            for slots in self._slots.values():
                slots.used = 0

    def maker(self, tensor: Tensor) -> int:
        """Return the number of the result that a tensor holds, or -1."""
        return self._makers.get(tensor.untyped_storage()._cdata, -1)

    def _note(self, known: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        where = self._attribution.where(known)
        if where.phase == OPTIMIZER:
            return
        kind = known.kind
        if kind is Kind.VIEW and not known.written:
            return  # the same storage
        makers = self._makers
        parents = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, Tensor):
                parents.append(_maker(makers, value))
            elif isinstance(value, (list, tuple)):
                parents += [_maker(makers, part) for part in value if isinstance(part, Tensor)]
        for tensor in known.results(args, kwargs, out):
            if kind is Kind.ALLOCATE or kind is Kind.RANDOM or not has_values(tensor) or known not in self._selection:
                self._pass_on(known, tensor, parents)
                continue
            slots = self._slots.get(tensor.device)
            if slots is None:
                slots = self._slots[tensor.device] = Slots(tensor.device)
            with self._lock:
                number = len(self._results)
                try:
                    self._places.append((slots, slots.take(tensor)))
                except (NotImplementedError, RuntimeError):  # a device may lack the sum of a dtype
                    self.untested[known.name] = self.untested.get(known.name, 0) + 1
                    continue
                self._results.append(Result(known, where, tuple(parents)))
            makers[tensor.untyped_storage()._cdata] = number

    def _pass_on(self, known: Operator, tensor: Tensor, parents: list[int]) -> None:
        """A result that is not looked at is as bad as the newest of what it was made of."""
        try:
            key = tensor.untyped_storage()._cdata
        except (NotImplementedError, RuntimeError):  # sparse, or of a subclass: it has no storage of its own
            self.untested[known.name] = self.untested.get(known.name, 0) + 1
            return
        newest = max(parents, default=-1)
        if newest >= 0 and known.kind is not Kind.ALLOCATE:
            self._makers[key] = newest
        else:
            self._makers.pop(key, None)


def _maker(makers: dict[int, int], tensor: Tensor) -> int:
    try:
        return makers.get(tensor.untyped_storage()._cdata, -1)
    except (NotImplementedError, RuntimeError):
        return -1
