"""Sees each call of an operator, and records what it made."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from torchferry.numerics.compare import tolerances
from torchferry.numerics.framework import torch_versions
from torchferry.numerics.framework.attribution import BACKWARD, FORWARD, OPTIMIZER, Attribution, Where
from torchferry.numerics.framework.dispatch import (
    WholeMode,
    WithoutDispatchModes,
    is_higher_order,
    of_modes,
    unwrap_themselves,
)
from torchferry.numerics.framework.kinds import COPIES, OpKind
from torchferry.numerics.framework.operators import Operator, argument, operator, tensors
from torchferry.numerics.recording.step import StepRows
from torchferry.numerics.runlog import layout as names

# Memory that a program allocates and never writes to: programs run their model on it to count operations.
#
# What such a forward computes is another number in each run, and no batch was given to it.


class Unwritten:
    """Knows which tensors nobody has written to."""

    def __init__(self) -> None:
        self._made: dict[int, weakref.ref[Tensor]] = {}

    def see(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Take note of a call: what allocates makes such a tensor, and what moves one makes another."""
        op = operator(func)
        if not op.name.startswith("aten."):  # collectives and others write without saying so
            for tensor in tensors([*args, *kwargs.values()]):
                if _has_storage(tensor):
                    self._made.pop(tensor.untyped_storage()._cdata, None)
            return
        if op.kind is OpKind.MOVE:
            if not any(isinstance(arg, Tensor) and self.holds(arg) for arg in args):
                return
        elif op.kind is not OpKind.ALLOCATE:
            return
        for tensor in op.results(args, kwargs, out):
            if _has_storage(tensor):
                self._made[tensor.untyped_storage()._cdata] = weakref.ref(tensor)

    def holds(self, tensor: Tensor) -> bool:
        """Whether nobody has written to a tensor, as far as torch counts."""
        if not self._made or not _has_storage(tensor):
            return False
        maker = self._made.get(tensor.untyped_storage()._cdata)
        return maker is not None and maker() is not None and tensor._version == 0


def _has_storage(tensor: Tensor) -> bool:
    """Whether a tensor is a plain one, whose writes torch counts."""
    if type(tensor) is not Tensor or tensor.layout is not torch.strided:
        return False
    return not (tensor.is_inference() or tensor.is_nested)


_COMPUTED = frozenset({OpKind.COMPUTE, OpKind.RANDOM})
_WITHOUT_VALUES = frozenset({OpKind.VIEW, OpKind.BOOKKEEP, OpKind.COMMUNICATE})
"""What a collective writes may not be there yet when its call returns; what becomes of it is recorded."""
_BYTES = 16
"""Numbers of the device's storages that a call may bring; beyond, none of its inputs is followed."""


_STRIDED = torch.strided

_SMALL = 32
"""Further results of a forward operator that are this much smaller than its first are what it keeps for backward, such
as the mean of a norm: an error in them is one in the first."""


class Makers:
    """The rows whose values are in a storage, as long as it is there: its place may be another's afterwards."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Callable[[], object], tuple[int, ...]]] = {}

    def of(self, storage: torch.UntypedStorage) -> tuple[int, ...]:
        """Return the rows of a storage."""
        rows = self._rows.get(storage._cdata)
        return rows[1] if rows is not None and rows[0]() is not None else ()

    def put(self, storage: torch.UntypedStorage, rows: tuple[int, ...]) -> None:
        """Note what a storage holds now."""
        self._rows[storage._cdata] = (torch_versions.watched(storage), rows)


class RecordingMode(WholeMode):
    """Records the results of operators while `on`.

    Attributes:
        on: Whether anything is recorded: switched for whole steps.
        captures: Whether what is called goes into a graph of the device's: then there are no numbers yet.
        captured: How many calls went into one while `on`.
        skipped: Results that could not be read, by operator and reason.
        unobserved: Calls that were made without this mode, by operator.
        unwritten: Tensors that nobody has written to, as long as anybody asks.
        any_device: Whether operators on the CPU are recorded outside of modules too; in a program that uses a device
            they prepare data, image by image.
    """

    def __init__(self, attribution: Attribution, rows: StepRows) -> None:
        super().__init__()
        self.on = False
        self.captures = False
        self.captured = 0
        self.any_device = True
        self.calls_backward = False
        self.loss: list[int] = []
        self.on_draw: Callable[[Operator, Where, Tensor, int], None] = lambda *_: None
        self.on_target: Callable[[str, Tensor], None] = lambda *_: None
        self.on_tensor: Callable[[str, int, Tensor], None] | None = None
        self.on_failure: Callable[[Exception], None] = lambda _: None
        self.skipped: dict[str, int] = {}
        self.unobserved: dict[str, int] = {}
        self.unwritten: Unwritten | None = Unwritten()
        self._attribution = attribution
        self._rows = rows
        self._scalar = -1
        self._makers = Makers()
        self._of_modules: set[int] = set()
        self._operators: dict[int, Operator] = {}
        """By the identity of the overload, which is kept in the known facts about it."""

    def clear(self) -> None:
        """Begin a step: nothing that lies in memory came from one of its rows."""
        self._makers = Makers()
        self._of_modules = set()
        self._scalar = -1
        self.loss = []
        self.calls_backward = False

    def left(self, path: str, result: Any) -> None:
        """Note which row is what a module gave: by it modules are compared that other operators compute."""
        if not self.on or self.captures:
            return
        tensor = next(tensors(result), None)
        if tensor is None or unusual(tensor) or tensor.device.type == "meta":
            return
        rows = self._makers.of(tensor.untyped_storage())
        if len(rows) == 1:
            self._rows.gave(path, rows[0], tensor)

    def makers(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the rows whose values a tensor has."""
        return self._makers.of(tensor.untyped_storage())

    def is_given(self, tensor: Tensor) -> bool:
        """Whether a tensor is what the program was given, and nothing that a module had a part in."""
        return self._of_modules.isdisjoint(self.makers(tensor))

    def made(self, tensor: Tensor, row: int) -> None:
        """Note that a row has the values of this tensor."""
        self._makers.put(tensor.untyped_storage(), (row,))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kwargs is None:
            kwargs = {}
        if types and unwrap_themselves(types):
            return func(*args, **kwargs) if of_modes(types) else NotImplemented
        if not self.uncompiled:
            self.keep_uncompiled()
        op = self._operators.get(id(func))
        if op is None:
            if is_higher_order(func):
                return self._higher(func, args, kwargs)
            op = self._operators[id(func)] = operator(func)
        if not self.on:
            out = func(*args, **kwargs)
        elif self.captures:
            self.captured += 1
            out = func(*args, **kwargs)
        else:
            out = self._recorded(op, func, args, kwargs)
        if self.unwritten is not None:
            self.unwritten.see(func, args, kwargs, out)
        return out

    def _higher(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that calls others: what it calls is recorded, and where that is not seen, it is said."""
        out, seen = self.opened(func, args, kwargs)
        if not seen and self.on:
            self._skip(operator(func), "higher-order")
        return out

    def not_seen(self, overload: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Record what a call gave that was made without this mode, and count that what it called was not observed."""
        if not self.on or self.captures:
            return
        op = operator(overload)
        self.unobserved[op.name] = self.unobserved.get(op.name, 0) + 1
        if out is None:
            return
        where = self._attribution.where(op)
        try:
            with torch.no_grad():
                self._note(op, where, args, kwargs, out, self._used(args, kwargs))
        except Exception as error:
            self._skip(op, "cannot be read")
            self.on_failure(error)

    def _recorded(self, op: Operator, func: Any, args: Any, kwargs: Any) -> Any:
        if op.kind in _WITHOUT_VALUES:
            self._attribution.passed(op)
            return func(*args, **kwargs)
        where = self._attribution.where(op)
        if where.phase == OPTIMIZER:
            return func(*args, **kwargs)
        if not self.calls_backward and where.phase == BACKWARD:
            self.calls_backward = True
            if self._scalar >= 0:
                self.loss.append(self._scalar)
        used = self._used(args, kwargs)
        out = func(*args, **kwargs)
        try:
            if torch._C._len_torch_dispatch_stack():  # modes below us, of the program, see nothing of it
                with WithoutDispatchModes():
                    self._note(op, where, args, kwargs, out, used)
            else:
                self._note(op, where, args, kwargs, out, used)
        except Exception as error:  # whatever is wrong with the recording of a call, the program and the others go on
            self._skip(op, "cannot be read")
            self.on_failure(error)
        return out

    def _used(self, args: Any, kwargs: Any) -> set[int]:
        """Return the rows that made what a call reads."""
        used: set[int] = set()
        rows_of = self._makers.of
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, Tensor):
                if value.layout is _STRIDED:
                    used.update(rows_of(value.untyped_storage()))
            elif isinstance(value, (list, tuple)) and len(value) <= _BYTES:
                for tensor in value:
                    if isinstance(tensor, Tensor) and tensor.layout is _STRIDED:
                        used.update(rows_of(tensor.untyped_storage()))
        return used

    def _note(self, op: Operator, where: Where, args: Any, kwargs: Any, out: Any, used: set[int]) -> None:
        draws = op.kind is OpKind.RANDOM or (op.dropout is not None and op.draws(args, kwargs))
        if not self._is_recorded(op, args, used):
            for tensor in op.results(args, kwargs, out):
                if not unusual(tensor) and tensor.device.type != "meta":
                    self._makers.put(tensor.untyped_storage(), tuple(used) if op.kind is OpKind.MOVE else ())
            return
        if op.may_share and op.is_view(args, out):
            return
        shows = draws and (op.dropout is None or op.base in _SHOWN)
        arguments = _told(args, kwargs)
        first = 0
        for index, tensor in op.numbered(args, kwargs, out):
            length = 1 if tensor.is_nested else tensor.numel()
            if length == 0 or tensor.device.type == "meta":
                continue
            if _of_its_backward(op) and index - _written(op, args, kwargs) in _of_its_backward(op):
                continue
            if index == 0:
                first = length
            elif where.phase == FORWARD and length * _SMALL <= first:
                continue
            odd = unusual(tensor)
            if odd:
                self._skip(op, odd)
                continue
            whole = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
            if whole and draws:  # what is drawn is compared as such
                if shows and (tensor.dtype is torch.bool or op.dropout is None):
                    self.on_draw(op, where, tensor, -1)
                self._makers.put(tensor.untyped_storage(), tuple(used) if len(used) <= _BYTES else ())
                continue
            if not where.module and tensor.device.type == "cpu" and not self.any_device and not draws:
                continue
            self._record(op, where, tensor, index, arguments, used, draws)
            if whole and tolerances.chosen(op) == index:
                scores = _scores(op, args, kwargs, tensor)
                if scores is not None:
                    self._record(op, where, scores, names.SCORES, arguments, used, draws)
        if where.phase == FORWARD and not where.module:
            self._targets(op, args, kwargs)

    def _is_recorded(self, op: Operator, args: Any, used: set[int]) -> bool:
        """Whether the results of a call are rows of their own."""
        if op.kind in _COMPUTED:
            return True
        if op.kind is OpKind.CONSTANT:
            return _among_others(args)
        if op.kind is not OpKind.MOVE or (not used and op.base.rstrip("_") in COPIES):
            return False  # a copy of what nobody knows, such as the batch that is brought to the device
        written = {place for place, _ in op.written}
        read = tensors([value for place, value in enumerate(args) if place not in written])
        return self.unwritten is None or not any(map(self.unwritten.holds, read))

    def _record(
        self, op: Operator, where: Where, tensor: Tensor, index: int, arguments: Any, used: set[int], draws: bool
    ) -> None:
        rows = self._rows
        tensor = tensor.detach() if tensor.requires_grad else tensor
        if arguments and any(type(value) is float and not math.isfinite(value) for value in arguments):
            tensor = torch.where(tensor.isfinite(), tensor, 0.0)  # what a mask puts there hides all else in a sketch
        key = (where.phase, where.module, op.name, where.source, index, rows.dtype(tensor.dtype), draws)
        memory = tensor.untyped_storage()
        if op.written:
            used = used.union(self._makers.of(memory))  # of a long list only what the tensor itself was
        row = rows.add(key, tensor, arguments, used)
        if row < 0:
            return
        self._makers.put(memory, (row,))
        if where.module or not self._of_modules.isdisjoint(used):
            self._of_modules.add(row)
        if draws and op.dropout is None and op.base not in _SHOWN:
            self.on_draw(op, where, tensor, row)
        is_value = tensor.dim() == 0 and tensor.dtype.is_floating_point
        if is_value and index == 0 and where.phase == FORWARD and op.kind is not OpKind.MOVE:
            if self._scalar < 0 or op.base != "mul" or self._scalar not in used:  # not the scaled loss
                self._scalar = row
        if self.on_tensor is not None:
            self.on_tensor(where.module, row, tensor)

    def _targets(self, op: Operator, args: Any, kwargs: Any) -> None:
        """Report what a loss compares with, where it is a batch's labels."""
        for index, item in enumerate(op.overload._schema.arguments):
            if item.name in _TARGETS:
                value = args[index] if index < len(args) else kwargs.get(item.name)
                if isinstance(value, Tensor) and not value.requires_grad:
                    self.on_target(f"{op.base} {item.name}", value)

    def _skip(self, op: Operator, why: str) -> None:
        name = f"{op.name} ({why})"
        self.skipped[name] = self.skipped.get(name, 0) + 1


def unusual(tensor: Tensor) -> str:
    """Return what keeps a tensor from being read as a row of numbers, or nothing."""
    if tensor.is_nested:
        return "nested"
    if tensor.layout is not torch.strided:
        return "sparse"
    return "quantized" if tensor.is_quantized else ""


_TARGETS = frozenset({"target"})
_SHOWN = frozenset({"native_dropout"})
"""Operators that return their mask beside the result; of the others with a dropout it stays in the kernel."""


@cache
def _of_its_backward(op: Operator) -> frozenset[int]:
    """Return the numbers of the results that only the backward of the same device reads: each device has its own."""
    return tolerances.auxiliary(op) - tolerances.statistics(op).keys()


def _written(op: Operator, args: Any, kwargs: Any) -> int:
    """Return how many of a call's results are arguments that it wrote to, which are numbered first."""
    return sum(1 for place in op.written for _ in tensors(argument(place, args, kwargs, None)))


def _scores(op: Operator, args: Any, kwargs: Any, indices: Tensor) -> Tensor | None:
    """Return the elements that a call chose, by its indices; None where they cannot be taken from what it was given.

    `topk` returns such elements too, but they may be right where its indices are not.
    """
    given: Tensor = args[0]
    if given.dim() == 0 or not given.dtype.is_floating_point:
        return None
    if "pool" in op.base:  # places in a plane or a volume
        wide = -3 if "3d" in op.base else -2
        return given.flatten(wide).gather(-1, indices.flatten(wide))
    named = {item.name: place for place, item in enumerate(op.overload._schema.arguments)}
    dim = argument((named["dim"], "dim"), args, kwargs, None if op.base in ("argmax", "argmin") else -1)
    if dim is None:
        return torch.take(given, indices)
    if indices.dim() < given.dim():
        indices = indices.unsqueeze(dim)
    return given.gather(dim, indices)


def _among_others(args: Any) -> bool:
    """Whether a call puts a constant among values that it is given: it has a mask or an index beside them."""
    return sum(isinstance(value, Tensor) for value in args) > 1


def _told(args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Return what a call was told besides tensors: numbers and switches, in their order."""
    numbers = tuple([value for value in args if value.__class__ in _NUMBERS])
    if kwargs:
        numbers += tuple([(key, value) for key, value in kwargs.items() if value.__class__ in _NUMBERS])
    return numbers


_NUMBERS = frozenset({float, int, bool, str})
