"""Scalars in TensorBoard's event files, read without TensorBoard.

A file is a row of records: length (uint64), its checksum, the bytes of an Event, their checksum. Of an Event only the
step and the scalars of its summary are read; field numbers are those of tensorflow's event.proto, summary.proto and
tensor.proto.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from torchferry.core.messages import say
from torchferry.numerics.curves.records import Sample, Trouble, unreadable

_LARGEST = 1 << 28
"""Bytes of one record; a larger length means that the file is damaged there."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _DOUBLE = 1, 2
Field = tuple[int, int, "int | bytes"]


def is_event_file(head: bytes) -> bool:
    """Say whether a file begins as an event file: a short record whose Event has a time and `brain.Event`."""
    return len(head) > 24 and head[4:8] == b"\0\0\0\0" and b"brain.Event:" in head[:64]


class EventReader:
    """Reads one event file."""

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield the scalars of the file, in its order.

        Raises:
            TorchferryError: the file cannot be read.
        """
        try:
            with path.open("rb") as file:
                for record in _records(file):
                    if record is None:
                        yield Trouble(say("the event file stops in the middle of a record"))
                        return
                    yield from _scalars(record)
        except OSError as error:
            raise unreadable(path, error) from None
        except (ValueError, IndexError, struct.error):
            yield Trouble(say("the event file is damaged; what follows the damage was left out"))


def _records(file: IO[bytes]) -> Iterator[bytes | None]:
    while head := file.read(12):
        length = struct.unpack_from("<Q", head)[0] if len(head) == 12 else _LARGEST + 1
        if length > _LARGEST:
            yield None
            return
        body = file.read(length + 4)
        if len(body) < length + 4:
            yield None
            return
        yield body[:length]


def _scalars(event: bytes) -> Iterator[Sample]:
    step = 0.0
    summaries = []
    for number, _, value in _fields(event):
        if number == 2 and isinstance(value, int):
            step = float(value)
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, _, value in _fields(summary):
            if number == 1 and isinstance(value, bytes):
                yield from _value(value, step)


def _value(data: bytes, step: float) -> Iterator[Sample]:
    tag = ""
    scalar: float | None = None
    for number, kind, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif number == 2 and kind == _FIXED32 and isinstance(value, bytes):
            scalar = struct.unpack("<f", value)[0]
        elif number == 8 and isinstance(value, bytes):
            scalar = _tensor(value)
    if tag and scalar is not None:
        yield Sample(tag, scalar, None, step)


def _tensor(data: bytes) -> float | None:
    """Return the number of a tensor of one float or double; None for every other tensor."""
    dtype = 0
    content = b""
    for number, kind, value in _fields(data):
        if number == 1 and isinstance(value, int):
            dtype = value
        elif number == 2 and isinstance(value, bytes) and any(size != 1 for size in _sizes(value)):
            return None
        elif number in (4, 5, 6) and isinstance(value, bytes) and kind in (_BYTES, _FIXED32, _FIXED64):
            content = value
    if dtype == _FLOAT and len(content) == 4:
        return float(struct.unpack("<f", content)[0])
    if dtype == _DOUBLE and len(content) == 8:
        return float(struct.unpack("<d", content)[0])
    return None


def _sizes(shape: bytes) -> Iterator[int]:
    for number, _, value in _fields(shape):
        if number == 2 and isinstance(value, bytes):
            yield next((size for field, _, size in _fields(value) if field == 1 and isinstance(size, int)), 0)


def _fields(data: bytes) -> Iterator[Field]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, kind, value if value < 1 << 63 else value - (1 << 64)
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(kind)
        if at + size > len(data):
            raise ValueError(size)
        yield number, kind, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(math.inf)
