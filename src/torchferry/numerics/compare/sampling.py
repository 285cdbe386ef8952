"""Which calls are compared, and which part of a large one.

Compared are the first of each operator, shape and dtype, each again within some steps, and beyond that what a share of
the time allows. Of large products, large results whose rows are independent, and lists of tensors, a moving block is
enough where they are compared again and again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import say
from torchferry.numerics.compare.snapshot import ComparedCall, Fetched, Snapshot, StridedPlace
from torchferry.numerics.framework.operators import Operator, tensors

FIRSTS = 64
"""Kinds of call of one operator that are compared at once; programs whose shapes never repeat go on by the budget."""

YOUNG, SOON = 20, 5
"""In so many steps of a program, each kind of call is compared again within so many."""

LATER, _PART = 50, 2
"""After these, within so many steps, or within this part of the steps so far where that is more; what the budget allows
comes sooner in most programs."""

_SMALL = 64
"""Greater integers are counts and sizes, which change from step to step, and no dimensions or modes."""

_DEBT = 50
"""Steps for which the budget may be spent in advance, on what is compared again soon."""

_INTERVAL = 2048
"""Calls after which samples are chosen anew in programs that never end a step."""

_UNKNOWN = 0.002
"""Seconds that a comparison is taken to cost before one was made."""


class CallSignature:
    """Calls of one operator with the same shapes, dtypes and strides.

    Attributes:
        calls: How many there were since the last choice.
        skip: How many more go by before one is compared; negative where none is wanted.
        cost: Seconds that a comparison took, of processor time.
        compared: How many were compared.
        taken: How many were handed in to be compared.
        expected: Calls between the last two choices.
        brief: Whether the next is compared by a part where it is large.
        place: The how many-th call of a step is compared next: they take turns.
        looked: The step in which one was compared last.
        widest: The most steps between two that were compared, one after the other.
        called: The last step in which there was one.
    """

    __slots__ = (
        "brief",
        "called",
        "calls",
        "compared",
        "cost",
        "expected",
        "looked",
        "place",
        "skip",
        "taken",
        "widest",
    )

    def __init__(self, skip: int) -> None:
        self.calls = 0
        self.expected = 1
        self.skip = skip
        self.cost = _UNKNOWN
        self.compared = 0
        self.taken = 0
        self.brief = False
        self.place = 0
        self.looked = -1
        self.widest = 0
        self.called = -1


class Sampler:
    """Chooses calls.

    Args:
        every: Compare all of them.
        budget: Share of the time that comparisons may take beyond the first ones, 0.03 for 3 %.
    """

    def __init__(self, every: bool, budget: float) -> None:
        self.every = every
        self._budget = budget
        self._turns: deque[CallSignature] = deque()
        self._allowance = 0.0
        self._since = time.perf_counter()
        self._step = 0
        self._since_choice = 0
        self.left_to_budget = 0
        """Kinds of call that came too late to be compared at once."""
        self.left_out = 0
        """Calls that were not chosen, or for whose copies there was no room."""

    def chosen(self, signatures: dict[tuple[Any, ...], CallSignature], key: tuple[Any, ...]) -> CallSignature | None:
        """Return the kind of a call if the call is to be compared, else None.

        Args:
            signatures: The kinds of call that the operator had so far; a new one is added.
            key: The kind of this call, from `key_of`.
        """
        signature = signatures.get(key)
        if signature is None:
            signature = signatures[key] = self.signature(first=len(signatures) < FIRSTS)
        self._since_choice += 1
        if self._since_choice > _INTERVAL:
            self.choose()
        if self.wants(signature):
            return signature
        self.left_out += 1
        return None

    def signature(self, first: bool) -> CallSignature:
        """Return a new kind of call, to be compared at once or when its turn comes."""
        signature = CallSignature(0 if first else -1)
        if not first and not self.every:
            self.left_to_budget += 1
        if not self.every:
            if first:
                self._turns.append(signature)
            else:
                self._turns.appendleft(signature)
        return signature

    def wants(self, signature: CallSignature) -> bool:
        """Whether this call is compared."""
        signature.calls += 1
        if self.every:
            return True
        skip = signature.skip
        if skip < 0:
            return False
        signature.skip = skip - 1
        if skip:
            return False
        if signature.looked >= 0:
            signature.widest = max(signature.widest, self._step - signature.looked)
        signature.looked = self._step
        return True

    def put_off(self, signature: CallSignature) -> None:
        """Let the next call of its kind be compared instead: there was no room for this one."""
        signature.skip = 0
        signature.taken -= 1
        self.left_out += 1

    def spent(self, signature: CallSignature, seconds: float) -> None:
        """Note what a comparison took."""
        first = signature.compared == 0
        signature.compared += 1
        if first:
            signature.cost = seconds  # the first is outside of the budget
        else:
            self._allowance -= seconds - signature.cost
            signature.cost += 0.3 * (seconds - signature.cost)

    def resume(self) -> None:
        """Count time from now on: what ran without the tool pays for no comparison."""
        self._since = time.perf_counter()

    def choose(self) -> None:
        """Choose calls for the time to come; called at the end of steps."""
        self._since_choice = 0
        now = time.perf_counter()
        gone, self._since = now - self._since, now
        self._step += 1
        if self.every or not self._turns:
            return
        most = max(signature.cost for signature in self._turns)
        self._allowance = min(self._allowance + self._budget * gone, most + self._budget * gone)
        self._allowance = max(self._allowance, -_DEBT * self._budget * gone)
        active = 0
        for signature in self._turns:
            if signature.calls:
                signature.expected = signature.calls
                signature.called = self._step - 1
                active += 1
            signature.calls = 0
        # each of the `active` kinds within as many steps: so many at the end of each, those first that wait longest
        within = SOON if self._step < YOUNG else max(LATER, self._step // _PART)
        due = -(-active // within)
        for _ in range(len(self._turns)):
            signature = self._turns[0]
            if signature.skip >= 0:
                self._turns.rotate(-1)
                continue
            recent = signature.called == self._step - 1
            brief = due > 0 and recent
            if not brief and signature.cost > self._allowance:
                if due > 0:
                    self._turns.rotate(-1)
                    continue  # one that is not called now cannot be looked at
                return  # it waits for its turn, so that large ones have one too
            due -= brief
            self._allowance -= signature.cost
            signature.brief = brief
            signature.skip = signature.place = (signature.place + 1) % signature.expected
            self._turns.rotate(-1)

    def again(self) -> tuple[int, int]:
        """Return within how many steps each kind of call was compared again, and each of the calls of a kind.

        A kind that was called in a step counts, and the steps since it was compared last.
        """
        kinds = places = 0
        for signature in self._turns:
            if signature.looked >= 0 and (signature.called > signature.looked or signature.widest):
                gap = max(signature.widest, signature.called - signature.looked)
                kinds, places = max(kinds, gap), max(places, gap * signature.expected)
        return kinds, places


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Tensor | None]:
    """Return what kind of call it is, and the tensor that decides where it runs: one not on the CPU, if any.

    Numbers with fractions are left out: they change with the step.
    """
    parts: list[Any] = []
    tensor: Tensor | None = None
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            parts += (value.shape, value.dtype)
            if value.layout is torch.strided:
                parts.append(value.stride())
            if tensor is None or (tensor.is_cpu and not value.is_cpu):
                tensor = value
        elif isinstance(value, (list, tuple)):
            parts.append(len(value))
            first = next((item for item in value if isinstance(item, Tensor)), None)
            if first is not None:  # lists of indices have None between them
                last = next(item for item in reversed(value) if isinstance(item, Tensor))
                parts += (first.shape, first.dtype, last.shape, value[0] is None, value[-1] is None)
                if tensor is None or (tensor.is_cpu and not first.is_cpu):
                    tensor = first
            elif value and isinstance(value[0], int):
                parts += value
        elif value is None or isinstance(value, bool):
            parts.append(value)
        elif isinstance(value, int):
            parts.append(value if -_SMALL < value < _SMALL else int)
        elif isinstance(value, (torch.dtype, str)):
            parts.append(value)
    return tuple(parts), tensor


# A part of each tensor for operators on lists of tensors, such as an optimizer's: they work element by element.

FEW = 8
"""Tensors of a list that are compared where some are enough."""

BLOCK = 4096
"""Elements of a block. Of a larger tensor three are compared: the first, the last, and one between that moves."""


class ForeachBlocks:
    """Cuts the arguments of calls on lists; the cuts are views, so that what is written to them is seen.

    Args:
        args: Positional arguments.
        kwargs: Arguments by name.
        turn: Number of the call among those of its kind: the block between moves on with it.
        limit: Bytes up to which nothing is cut; 0 to cut whatever is large.
        few: Whether some tensors of a long list are enough, others with each turn.

    Attributes:
        whole: Whether all elements of all tensors are in the parts: then nothing is cut.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], turn: int, limit: int, few: bool = False) -> None:
        lists = [value for value in (*args, *kwargs.values()) if _is_tensors(value)]
        self._length = max((len(value) for value in lists), default=0)
        aligned = [value for value in lists if len(value) == self._length]
        fits = limit > 0 and (
            sum([tensor.numel() * tensor.element_size() for value in lists for tensor in tensors(value)]) <= limit
        )
        self.whole = True
        self._cuts: list[tuple[int, int, int]] = []
        chosen: Iterable[int] = range(self._length)
        if few and self._length > FEW:
            self.whole = False
            chosen = sorted((turn * FEW + number) % self._length for number in range(FEW))
        for number in chosen:
            row = [value[number] for value in aligned]
            largest = 0 if fits else max([tensor.numel() for tensor in row])
            if fits or largest <= 3 * BLOCK or not _alike(row, largest):
                self._cuts.append((number, -1, -1))
                continue
            self.whole = False
            between = largest - 2 * BLOCK
            middle = BLOCK + min(turn % -(-between // BLOCK) * BLOCK, between - BLOCK)
            for begin in (0, middle, largest - BLOCK):
                self._cuts.append((number, begin, largest))

    def cut(self, value: Any) -> Any:
        """Return what takes the place of an argument, or of a result."""
        if self.whole or not isinstance(value, (list, tuple)) or len(value) != self._length or not value:
            return value
        return [self._block(value[number], begin, largest) for number, begin, largest in self._cuts]

    def owners(self) -> list[int]:
        """Return the number of the tensor that each part is of."""
        return [number for number, _, _ in self._cuts]

    @staticmethod
    def _block(value: Any, begin: int, largest: int) -> Any:
        if not isinstance(value, Tensor) or begin < 0 or value.numel() != largest:
            return value  # a number, or a tensor of one, that stands for all elements
        flat = value.detach().as_strided((largest,), (1,), value.storage_offset())
        return flat[begin : begin + BLOCK]


def applies(operator: Operator, args: tuple[Any, ...]) -> bool:
    """Whether there is a list to be cut."""
    return bool(args) and _is_tensors(args[0])


def _is_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Tensor)


def _alike(row: list[Tensor], largest: int) -> bool:
    """Whether the same place in memory is the same element in all of them, and none has gaps."""
    first = next(tensor for tensor in row if tensor.numel() == largest)
    for tensor in row:
        if tensor.numel() == largest and (
            tensor.stride() != first.stride()
            or tensor.layout is not torch.strided
            or not torch.ops.aten.is_non_overlapping_and_dense(tensor)
        ):
            return False
    return True


_LARGE = 1 << 22
"""Multiplications from which on a product is cut."""

_SHARE = 4
"""A block is one part in so many."""

_GIVEN = {"mm": 0, "addmm": 1, "bmm": 0, "convolution": 0}
"""Argument whose first dimension is that of the result."""


_MANY = 1 << 18
"""Elements from which on a result whose rows are independent is cut."""

_BY_ROWS = frozenset(
    {"_log_softmax", "_softmax", "_log_softmax_backward_data", "_softmax_backward_data", "gelu", "gelu_backward"}
)
"""Operators that are not marked as pointwise and compute each row by itself, where their dimension is not the first."""


def _rows_of(call: ComparedCall, turn: int) -> ComparedCall:
    """Return a call for a block of the first dimension, where no row of the result depends on another."""
    result = call.results[0]
    operator, shape = call.operator, result.shape
    dimension = next((value for value in call.snapshot.args if type(value) is int), -1)
    by_rows = operator.base in _BY_ROWS and dimension not in (0, -len(shape))
    if not (by_rows or torch.Tag.pointwise in operator.overload.tags) or operator.written:
        return call
    if len(shape) < 2 or shape[0] < _SHARE or _count(shape) < _MANY or call.owners is not None:
        return call
    rows = shape[0]
    width = rows // _SHARE
    begin = min(turn % -(-rows // width) * width, rows - width)
    args = []
    for value in call.snapshot.args:
        if isinstance(value, StridedPlace) and len(value.size) == len(shape) and value.size[0] == rows:
            args.append(_cut(value, begin, width))
        elif isinstance(value, (list, tuple)) or (isinstance(value, StridedPlace) and len(value.size) > len(shape)):
            return call
        else:
            args.append(value)
    if any(isinstance(value, StridedPlace) for value in call.snapshot.kwargs.values()):
        return call
    return _part(call, args, begin, width)


def _part(call: ComparedCall, args: list[Any], begin: int, width: int) -> ComparedCall:
    result = call.results[0]
    snapshot = Snapshot(tuple(args), call.snapshot.kwargs, call.snapshot.stores, call.snapshot.size)
    part = replace(
        result, fetched=Fetched(result.fetched.tensor[begin : begin + width]), shape=(width, *result.shape[1:])
    )
    note = say(
        "{first} to {last} of {count} in the first dimension",
        first=begin,
        last=begin + width - 1,
        count=result.shape[0],
    )
    return replace(call, snapshot=snapshot, results=[part], note=note, whole=_count(result.shape))


def block_of(call: ComparedCall, turn: int) -> ComparedCall:
    """Return a call for a block of the first dimension of a large result; other calls as they are.

    Args:
        call: The call.
        turn: Its number among those of its kind: the block moves on with it, and comes to all within a few.
    """
    place = _GIVEN.get(call.operator.base)
    if place is None and len(call.results) == 1:
        return _rows_of(call, turn)
    if place is None or call.operator.overload._overloadname != "default" or len(call.results) != 1:
        return call
    given, result = call.snapshot.args[place], call.results[0]
    if not isinstance(given, StridedPlace) or not result.shape or given.size[0] != result.shape[0]:
        return call
    rows = result.shape[0]
    width = max(1, rows // _SHARE)
    if rows < _SHARE or given.size[-1] * _count(result.shape) < _LARGE:
        return call
    begin = min(turn % -(-rows // width) * width, rows - width)
    args = list(call.snapshot.args)
    args[place] = _cut(given, begin, width)
    if call.operator.base == "bmm":
        args[1] = _cut(args[1], begin, width)
    first = args[0]
    if (
        call.operator.base == "addmm"
        and isinstance(first, StridedPlace)
        and len(first.size) == 2
        and first.size[0] == rows
    ):
        args[0] = _cut(first, begin, width)
    return _part(call, args, begin, width)


def _cut(place: StridedPlace, begin: int, width: int) -> StridedPlace:
    return place._replace(size=(width, *place.size[1:]), offset=place.offset + begin * place.stride[0])


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
