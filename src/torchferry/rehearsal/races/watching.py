"""Look for races in this process: build the library that does, connect it, and tell what it finds.

The library sees every operator and every event. What reads memory of the host without an operator is told to it here:
`tolist`, NumPy, DLPack, saving.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torchferry.core.userlines import NOWHERE, UserLine
from torchferry.rehearsal import build, events

SOURCE = Path(__file__).with_name("races.cpp")

KIND = "race"
UNWATCHED = "unwatched-read"
DEVICE_ADDRESS = "device-address"

RACES = {
    1: "host reads too early",
    2: "host overwrites too early",
    3: "stream reads too early",
    4: "stream overwrites what is read",
    5: "stream overwrites what is written",
    6: "memory freed too early",
}
_HOST_USES_DEVICE = 7
"""Kinds of races, by number; `accesses.h` has the same list."""

_HOST_HAS_STREAM, _HOST_HAS_EVENT, _RESIZED = 3, 4, 10
"""As in `csrc/stream_order.h`."""

_FIND_PLACE = ctypes.CFUNCTYPE(ctypes.c_int64)
_TELL = ctypes.CFUNCTYPE(
    None,
    *(ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p),
)


class RaceWatch:
    """The library that looks for races in this process. There can be one."""

    def __init__(self, device_type: str, code: int, driver_stream: Any) -> None:
        self._library = _load(build.library_of(SOURCE, "races.so"))
        self._places: list[UserLine] = []
        self._numbers: dict[UserLine, int] = {}
        self._callbacks = _FIND_PLACE(self._place), _TELL(self._tell)
        self._device_type = device_type
        function = None if driver_stream is None else ctypes.cast(driver_stream, ctypes.c_void_p)
        self._library.ferry_watch_races(code, device_type.encode(), *self._callbacks, function)

    @property
    def order(self) -> int:
        """The address of the function that is told what orders streams."""
        return ctypes.cast(self._library.ferry_order, ctypes.c_void_p).value or 0

    def _place(self) -> int:
        """Return a number for the user's line that this thread is at."""
        place = events.recorder.lines.of(sys._getframe(1))
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self._places)
            self._places.append(place)
        return number

    def _tell(
        self,
        race: int,
        now: int,
        operation: bytes,
        stream: bytes,
        earlier: int,
        earlier_operation: bytes,
        earlier_stream: bytes,
    ) -> None:
        if race == _HOST_USES_DEVICE:
            detail = earlier_operation.decode()
            place = self._places[earlier] if earlier_operation else NOWHERE
            events.recorder.add(DEVICE_ADDRESS, "an address of device memory", detail, place=self._places[now],
                                earlier=place)  # fmt: skip
            return
        one = f"{operation.decode()} on {stream.decode()}"
        other = f"{earlier_operation.decode()} on {earlier_stream.decode()}"
        events.recorder.add(
            KIND, RACES[race], f"{one}; {other}", place=self._places[now], earlier=self._places[earlier]
        )

    def host_uses(self, tensor: torch.Tensor, name: str, *, place: int = -1, looks: bool = False) -> bool:
        """Say that the host reads a tensor of its own outside of any operator; return whether a copy may still fill it.

        Args:
            tensor: The tensor.
            name: What reads it.
            place: The number of the line; -1 for the one that is being executed.
            looks: It is only asked, and nothing is told.
        """
        low = tensor.storage_offset() * tensor.itemsize
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        high = low + (last + 1) * tensor.itemsize if tensor.numel() else low
        return self._uses(tensor.untyped_storage(), int(low), int(high), name, place, looks)

    def host_reads_storage(self, storage: torch.UntypedStorage, name: str) -> None:
        """Say that the host reads all of a storage."""
        self._uses(storage, 0, storage.nbytes(), name, -1, False)

    def _uses(self, storage: torch.UntypedStorage, low: int, high: int, name: str, place: int, looks: bool) -> bool:
        address = storage._cdata
        return bool(self._library.ferry_host_uses(address, low, high, 0, looks, _kept(name), place))

    def array_made(self, tensor: torch.Tensor, array: Any) -> None:
        """Look after an array of NumPy on a tensor's memory that a copy may still fill.

        One that ends before anybody has waited for the copy was read too early, or in vain. Of one that lives longer
        nobody knows when it was read: that is told.
        """
        place = self._place()

        def ended() -> None:
            if not self.host_uses(tensor, "numpy", place=place):
                events.recorder.add(UNWATCHED, "numpy", place=self._places[place])

        weakref.finalize(array, ended)

    def watch_addresses(self) -> None:
        """Tell of the host's use of device memory by its address, which ends the process as on a card."""
        self._library.ferry_watch_addresses()

    def watch_queries(self, namespace: Any) -> None:
        """Take a stream or an event that says it is done for waited for, where the driver itself cannot know who asks.

        A plugin's allocators ask events too, and go on whatever the answer is.

        Args:
            namespace: What the plugin has in place of `torch.cuda`.
        """
        for name, what in (("Stream", _HOST_HAS_STREAM), ("Event", _HOST_HAS_EVENT)):
            kind: Any = getattr(namespace, name, None)
            if hasattr(kind, "query"):
                kind.query = self._told(kind, f"{self._device_type}_{name.lower()}", what)

    def _told(self, kind: Any, number: str, what: int) -> Callable[[Any], bool]:
        original: Callable[[Any], bool] = kind.query

        @functools.wraps(original)
        def query(self_: Any) -> bool:
            done = original(self_)
            if done:
                self._library.ferry_order(what, getattr(self_, number, None), None, 0)
            return done

        return query

    def resized(self, storage: torch.UntypedStorage) -> None:
        """Say that a storage has other memory now."""
        self._library.ferry_order(_RESIZED, storage._cdata, None, 0)


_texts: dict[str, bytes] = {}


def _kept(name: str) -> bytes:
    """Return a name as bytes that last as long as the process."""
    return _texts.setdefault(name, name.encode())


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.ferry_watch_races.argtypes = [number, ctypes.c_char_p, _FIND_PLACE, _TELL, pointer]
    library.ferry_watch_races.restype = None
    library.ferry_watch_addresses.argtypes, library.ferry_watch_addresses.restype = [], None
    library.ferry_order.argtypes = [number, pointer, pointer, ctypes.c_size_t]
    library.ferry_order.restype = None
    library.ferry_host_uses.argtypes = [
        *(pointer, ctypes.c_size_t, ctypes.c_size_t, number, number, ctypes.c_char_p, ctypes.c_int64)
    ]
    library.ferry_host_uses.restype = number
    return library


_watch: RaceWatch | None = None


def watch(device_type: str, code: int, driver_stream: Any = None) -> RaceWatch:
    """Begin to look for races in this process.

    Args:
        device_type: The device's type, as it is written.
        code: Its number in `c10::DeviceType`.
        driver_stream: The plugin's function that returns what the driver calls a stream; None where there is no driver.

    Raises:
        TorchferryError: the library cannot be built.
    """
    global _watch  # noqa: PLW0603 - torch has one such device a process
    if _watch is None:
        _watch = RaceWatch(device_type, code, driver_stream)
        _watch_readers(_watch)
    return _watch


def _watch_readers(watching: RaceWatch) -> None:
    tensor: Any = torch.Tensor

    def is_on_host(value: Any) -> bool:
        return type(value) in {torch.Tensor, torch.nn.Parameter} and value.device.type == "cpu"

    def reading(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_on_host(self):
                watching.host_uses(self, name)
            return original(self, *args, **kwargs)

        return call

    for name in ("tolist", "__dlpack__"):
        setattr(tensor, name, reading(getattr(tensor, name), name))
    to_numpy = tensor.numpy

    @functools.wraps(to_numpy)
    def numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
        array = to_numpy(self, *args, **kwargs)
        if is_on_host(self) and watching.host_uses(self, "numpy", looks=True):
            watching.array_made(self.detach(), array)
        return array

    tensor.numpy = numpy
    storage: Any = torch.UntypedStorage
    resize = storage.resize_

    @functools.wraps(resize)
    def resize_(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = resize(self, *args, **kwargs)
        watching.resized(self)
        return result

    storage.resize_ = resize_
    writer: Any = torch._C.PyTorchFileWriter
    write = writer.write_record

    def write_record(self: Any, name: str, data: Any, *rest: Any) -> Any:
        if isinstance(data, torch.UntypedStorage) and data.device.type == "cpu":
            watching.host_reads_storage(data, "torch.save")
        return write(self, name, data, *rest)

    writer.write_record = write_record
