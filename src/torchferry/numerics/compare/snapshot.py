"""A call on its way to its verdict: its arguments as they were before it, and its results.

Of the arguments there is one copy of each storage on the CPU, with views, strides and aliases. A copy is made straight
to the CPU, in the dtype of the device; only the part of a storage that the arguments reach.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
from torchferry.numerics.compare.tolerances import EIGHT_BITS
from torchferry.numerics.framework.attribution import Where
from torchferry.numerics.framework.operators import Operator, tensors
from torchferry.numerics.framework.torch_versions import device_module

# Values of the device on the CPU, without waiting for the device where it can copy by itself.
#
# The small tensors of a call cross in one buffer for each dtype, and one event is behind them all. Each is copied by
# itself: nothing but a plain copy of the device stands between its values and what is compared.

_PINNED: dict[str, bool] = {}
"""For each type of device, whether it copies into pinned memory while the program goes on; found at the first use."""

_LOCK = threading.Lock()

_ALIGNED = 64
"""Bytes that places in a buffer are aligned to, as those of tensors of their own are: the CPU's kernels may round
otherwise where they are not."""

_LARGE = 1 << 18
"""Bytes from which on a tensor has its own buffer: it costs more to copy than to ask for, and memory of many sizes
is used again by the next call, where that of their sum would be fetched from the system each time."""

_FAILURES = (RuntimeError, NotImplementedError, AttributeError, TypeError, AssertionError)

Key = tuple[torch.dtype, bool]
"""What has a buffer: a dtype, and whether it is pinned."""


class Fetched:
    """A copy on the CPU, which may still be on its way.

    Attributes:
        dtype: Of the values; known before they have arrived.
        buffer: What it is a part of, maybe with others of its call; None where it lies alone.
        begin: Where it begins there.
    """

    __slots__ = ("_crossing", "_size", "_stride", "_tensor", "begin", "buffer", "dtype")

    def __init__(self, tensor: Tensor | None, dtype: torch.dtype | None = None) -> None:
        self._tensor = tensor
        self._crossing: Crossing | None = None
        self._size: tuple[int, ...] = ()
        self._stride: tuple[int, ...] = ()
        if dtype is None:
            assert tensor is not None
            dtype = tensor.dtype
        self.dtype = dtype
        self.buffer: Tensor | None = None
        self.begin = 0

    def wait(self) -> None:
        """Return when the values are there."""
        if self._crossing is not None:
            self._crossing.wait()
            self._crossing = None

    @property
    def tensor(self) -> Tensor:
        """The values; waits until they are there."""
        if self._crossing is not None:
            self.wait()
        if self._tensor is None:
            assert self.buffer is not None
            self._tensor = self.buffer.as_strided(self._size, self._stride, self.begin)
        return self._tensor


_Added = tuple[Tensor, Fetched, bool, torch.device]
"""A tensor, where its copy will be, whether it is contiguous, and its device."""


class Crossing:
    """The tensors of one call on their way to the CPU.

    Those that were added cross with `go`, and `mark_sent` marks where the device has sent them: the call itself may lie
    between, since a device works in the order in which it was asked.
    """

    __slots__ = ("_added", "_events", "_sent_by")

    def __init__(self) -> None:
        self._added: list[_Added] = []
        self._sent_by: dict[torch.device, None] = {}
        self._events: list[Any] = []

    def add(self, tensor: Tensor, flat: bool = False) -> Fetched:
        """Have a tensor copied, with its strides where it has no gaps.

        Args:
            tensor: What the device does to it after `go` changes nothing.
            flat: Whether it is contiguous, and the copy is to be read as numbers in a row.
        """
        fetched = Fetched(None, tensor.dtype)
        fetched._crossing = self
        if flat:
            fetched._size, fetched._stride = (tensor.numel(),), (1,)
        self._added.append((tensor, fetched, flat or tensor.is_contiguous(), tensor.device))
        return fetched

    def go(self) -> None:
        """Copy what was added."""
        added, self._added = self._added, []
        if not added:
            return
        devices = {device: None for _, _, _, device in added}
        for device in devices:
            if device not in self._sent_by and sends(device):
                self._sent_by[device] = None
        try:
            self._copy(added)
        except _FAILURES:
            self.mark_sent()
            self.wait()  # for what crossed before: from now on nothing is behind it
            for device in devices.keys() & self._sent_by.keys():
                with _LOCK:
                    _PINNED[device.type] = False
                del self._sent_by[device]
            self._copy(added)

    def mark_sent(self) -> None:
        """Say that no more is added: what `wait` waits for is behind all that was sent."""
        for device in self._sent_by:
            self._events.append(_event(device))

    def wait(self) -> None:
        """Return when all copies are there."""
        for event in self._events:
            event.synchronize()

    def _copy(self, added: list[_Added]) -> None:
        sent_by = self._sent_by
        sizes: dict[Key, int] = {}
        together: list[tuple[Tensor, Fetched, Key]] = []
        for tensor, fetched, contiguous, device in added:
            pinned = device in sent_by
            count, width = tensor.numel(), tensor.element_size()
            if not contiguous or count * width > _LARGE:
                target = torch.empty_like(tensor, device="cpu", pin_memory=pinned)
                target.copy_(tensor, non_blocking=pinned)
                fetched._tensor = target.as_strided(fetched._size, fetched._stride) if fetched._size else target
                continue
            key = fetched.dtype, pinned
            begin = fetched.begin = sizes.get(key, 0)
            step = _ALIGNED // width
            sizes[key] = begin + -(-count // step) * step
            together.append((tensor, fetched, key))
        buffers = {key: torch.empty(size, dtype=key[0], pin_memory=key[1]) for key, size in sizes.items()}
        for tensor, fetched, key in together:
            buffer = fetched.buffer = buffers[key]
            target = buffer.as_strided(tensor.shape, tensor.stride(), fetched.begin)
            target.copy_(tensor, non_blocking=key[1])
            if not fetched._size:
                fetched._tensor = target


def fetch(tensor: Tensor) -> Fetched:
    """Copy a tensor to the CPU, with its strides where it has no gaps. What the device does later changes nothing."""
    crossing = Crossing()
    fetched = crossing.add(tensor.detach())
    crossing.go()
    crossing.mark_sent()
    return fetched


def sends(device: torch.device) -> bool:
    """Whether a device copies into pinned memory while the program goes on."""
    kind = device.type
    pinned = _PINNED.get(kind)
    if pinned is None:
        pinned = False
        if kind != "cpu":
            try:
                torch.empty(1, pin_memory=True)
                _event(device)
                pinned = True
            except _FAILURES:
                pinned = False
        with _LOCK:
            _PINNED[kind] = pinned
    return pinned


def _event(device: torch.device) -> Any:
    """Return an event behind what a device was asked for, on the stream that copies of it run on.

    That is the current stream of the tensors' device; another device may be the current one.
    """
    module = device_module(device.type)
    event = module.Event()
    its_device = getattr(module, "device", None)
    current = getattr(module, "current_device", None)
    if its_device is None or (current is not None and current() == device.index):
        event.record()
    else:
        with its_device(device):
            event.record()
    return event


SPARSE = frozenset({torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})

_GAPS = 2
"""A view that reaches over more than so many times its elements is copied without the gaps between them."""


class Untestable(Exception):  # noqa: N818 - it is a verdict
    """A call that cannot be compared, and why."""

    def __init__(self, reason: Message) -> None:
        super().__init__(str(reason))
        self.reason = reason


class StridedPlace(NamedTuple):
    """In the place of a tensor: the copy that has its values, and how it lies there."""

    store: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass
class StorageCopy:
    """The copy of a part of one storage, flat; or, of a sparse tensor, the copy of the tensor."""

    fetched: Fetched
    whole: bool = False

    @property
    def tensor(self) -> Tensor:
        """The values, once they have arrived."""
        return self.fetched.tensor


@dataclass
class Snapshot:
    """Arguments as they were. `build` makes calls of them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    stores: list[StorageCopy] = field(default_factory=list)
    size: int = 0
    """Bytes that it holds."""

    def build(
        self,
        widen: Callable[[torch.dtype], torch.dtype],
        fresh: bool,
        change: Callable[[Tensor], Tensor] | None = None,
        apart: bool = False,
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments on the CPU, of the dtypes that `widen` says.

        Args:
            widen: What a dtype becomes.
            fresh: Whether the call writes to its arguments, so that the snapshot must not be what it writes to.
            change: What is done to the values first, if anything.
            apart: Whether each storage of the device's is to be one here too, as what may resize its arguments needs;
                else those that crossed together are widened together.
        """
        tensors: dict[int, Tensor] = {}
        whole: dict[int, Tensor] = {}
        apart = apart or change is not None

        def tensor(place: StridedPlace) -> Tensor:
            store = self.stores[place.store]
            fetched = store.fetched
            if fetched.buffer is not None and not apart:
                fetched.wait()
                kept = whole.get(id(fetched.buffer))
                if kept is None:
                    kept = whole[id(fetched.buffer)] = fetched.buffer.to(widen(fetched.dtype), copy=fresh)
                return kept.as_strided(place.size, place.stride, fetched.begin + place.offset)
            kept = tensors.get(place.store)
            if kept is None:
                values = store.tensor if change is None else change(store.tensor)
                kept = values.to(widen(values.dtype), copy=fresh)
                tensors[place.store] = kept
            return kept if store.whole else kept.as_strided(place.size, place.stride, place.offset)

        args = tuple([replaced(value, StridedPlace, tensor) for value in self.args])
        return args, {key: replaced(value, StridedPlace, tensor) for key, value in self.kwargs.items()}

    def dtypes(self) -> list[torch.dtype]:
        """Return the dtypes of the tensors in it."""
        return [store.fetched.dtype for store in self.stores]


def replaced(value: Any, kind: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with what is of a kind in it, at any depth of lists, put through a function."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        parts = [change(part) if isinstance(part, kind) else replaced(part, kind, change) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value


class _Group:
    """The tensors of a call that lie in one storage with one dtype, and the part of it that they reach."""

    __slots__ = ("begin", "contiguous", "count", "end", "number", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.count = 1
        self.contiguous = tensor.is_contiguous()
        self.number = -1
        self.begin, self.end = reach(tensor, self.contiguous)

    def add(self, tensor: Tensor) -> None:
        begin, end = reach(tensor, tensor.is_contiguous())
        if end > begin:
            self.begin, self.end = min(self.begin, begin), max(self.end, end)
        self.count += 1

    @property
    def sparse(self) -> bool:
        """Whether most of what the one view reaches over lies between its elements."""
        return self.count == 1 and self.end - self.begin > _GAPS * self.tensor.numel() > 0


def reach(tensor: Tensor, contiguous: bool) -> tuple[int, int]:
    """Return the first element of its storage that a tensor has, and the one behind its last."""
    begin = int(tensor.storage_offset())
    count = tensor.numel()
    if count == 0 or contiguous:
        return begin, begin + count
    return begin, begin + 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))


def take(args: tuple[Any, ...], kwargs: dict[str, Any], limit: int, crossing: Crossing | None = None) -> Snapshot:
    """Copy the tensors of a call.

    Args:
        args: Positional arguments.
        kwargs: Arguments by name.
        limit: Bytes that the copies may take.
        crossing: With what they cross, where more is to follow; then the caller says when all have left.

    Raises:
        Untestable: they take more, or one is of a kind that is not copied.
    """
    groups: dict[tuple[int, torch.dtype], _Group] = {}
    order: list[_Group | None] = []
    for tensor in tensors((*args, *kwargs.values()) if kwargs else args):
        if tensor.layout is not torch.strided and tensor.layout in SPARSE:
            order.append(None)
            continue
        check(tensor)
        key = (tensor.untyped_storage()._cdata, tensor.dtype)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(tensor)
        else:
            group.add(tensor)
        order.append(group)
    size = sum([(group.end - group.begin) * group.tensor.element_size() for group in groups.values()])
    if size > limit:
        raise Untestable(too_large(size, limit))
    snapshot = Snapshot((), {}, size=size)
    stores = snapshot.stores
    crosses = Crossing() if crossing is None else crossing
    following = iter(order)

    def place(tensor: Tensor) -> StridedPlace:
        group = next(following)
        if group is None:
            stores.append(StorageCopy(Fetched(tensor.detach().to("cpu", copy=True)), whole=True))
            return StridedPlace(len(stores) - 1, tuple(tensor.shape), (), 0)
        if group.number < 0:
            group.number = len(stores)
            stores.append(StorageCopy(_copied(group, crosses)))
        return StridedPlace(
            group.number, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()) - group.begin
        )

    snapshot.args = tuple([replaced(value, Tensor, place) for value in args])
    snapshot.kwargs = {key: replaced(value, Tensor, place) for key, value in kwargs.items()}
    crosses.go()
    if crossing is None:
        crosses.mark_sent()
    return snapshot


def _copied(group: _Group, crossing: Crossing) -> Fetched:
    first = group.tensor.detach() if group.tensor.requires_grad else group.tensor
    count = group.end - group.begin
    if group.count == 1 and group.contiguous:
        return crossing.add(first, flat=True)
    if not group.sparse:
        return crossing.add(torch.as_strided(first, (count,), (1,), group.begin), flat=True)
    flat = torch.empty(count, dtype=first.dtype)
    flat.as_strided(first.size(), first.stride(), 0).copy_(first)
    return Fetched(flat)


def check(tensor: Tensor) -> None:
    """Refuse what cannot be copied as it is.

    Raises:
        Untestable: a quantized or nested tensor, one of its own layout, or one without values.
    """
    if tensor.is_quantized:
        raise Untestable(say("quantized tensors are not compared"))
    if tensor.is_nested:
        raise Untestable(say("nested tensors are not compared"))
    if tensor.layout is not torch.strided and tensor.layout not in SPARSE:
        raise Untestable(say("tensors of layout {layout} are not compared", layout=tensor.layout))
    if tensor.is_meta:
        raise Untestable(say("a meta tensor has no values"))


def too_large(size: int, limit: int) -> Message:
    """Return why a call of this size is not compared."""
    return say(
        "its tensors take {size} MB, but at most {limit} MB are copied; raise memory_limit (--memory-limit)",
        size=round(size / 2**20),
        limit=round(limit / 2**20),
    )


@dataclass
class DeviceResult:
    """One result of the device: its values on the CPU, and how it lay on the device."""

    fetched: Fetched
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass
class ComparedCall:
    """One call of an operator, with what it was given and what came of it.

    Attributes:
        number: Its number among the calls that are compared.
        operator: What was called.
        where: Where it belongs.
        step: The step it was in, from 0.
        device: The device, as text.
        snapshot: What it was given.
        results: What the device made of it.
        full: Whether all is measured, or only what the verdict needs.
        note: What part of the call this is, where it is not all of it.
        owners: For operators on lists, which tensor each part is of.
        whole: Elements of the results where only a part of them is here; 0 where all are.
        uncompared: Numbers of the results that are not compared; known when it was judged.
        written: How many of the results are arguments that were written to.
        slots: The number of each result among those that the operator may give; empty where it gave all.
        size: Bytes that it holds.
        shape: Of its first result.
        dtype: Of its first result.
        drift: Relative distance to the golden run, where there is one.
    """

    number: int
    operator: Operator
    where: Where
    step: int
    device: str
    snapshot: Snapshot
    results: list[DeviceResult]
    full: bool = True
    note: Message | None = None
    owners: list[int] | None = None
    whole: int = 0
    uncompared: tuple[int, ...] = ()
    written: int = 0
    slots: tuple[int, ...] = ()
    size: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = ""
    drift: float | None = None

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they were, with the places of tensors in place of the tensors."""
        return self.snapshot.args, self.snapshot.kwargs

    def slot(self, number: int) -> int:
        """Return the number that a result has among those that the operator may give itself, after what it wrote to."""
        return (self.slots[number] if self.slots else number) - self.written

    def extent(self) -> tuple[int, int]:
        """Return how many elements of the results are compared, and how many there are in those results."""
        here = sum(result.count for number, result in enumerate(self.results) if number not in self.uncompared)
        return here, self.whole or here

    @cached_property
    def given_finite(self) -> bool:
        """Whether all that it was given is finite; False where that is not known."""
        try:
            return all(bool(_values(store.tensor).isfinite().all()) for store in self.snapshot.stores)
        except (RuntimeError, NotImplementedError):
            return False


def _values(tensor: Tensor) -> Tensor:
    """Return values of which torch can say whether they are finite."""
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    return tensor.to(torch.float32) if tensor.dtype in EIGHT_BITS else tensor
