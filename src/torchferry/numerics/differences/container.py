"""Read safetensors files into numpy, from bytes that may be hostile."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say, say_plural
from torchferry.numerics.differences.folder import damaged, opened, parsed, read, text
from torchferry.numerics.differences.layout import checksum

try:
    import numpy as np
except ImportError as _error:  # the extra is not installed
    raise TorchferryError(
        say("records are read with numpy: {error}", error=_error), say("`pip install 'torchferry[numerics]'`")
    ) from None

Array = np.ndarray[Any, np.dtype[Any]]

_WHOLE = 1 << 40
"""Bytes of a file with whole tensors, of which one is read."""

_PIECE = 1 << 20
_HEADER = 1 << 23
_ENTRIES = 1 << 16
_DIMENSIONS = 64

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1",
    "BOOL": "|b1", "BF16": "<u2",
}  # fmt: skip


class Entry(NamedTuple):
    """Where a tensor lies among the bytes behind the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def load(path: Path, limit: int, wanted: str | None) -> tuple[dict[str, Array], dict[str, str]]:
    """Return a file's tensors and its metadata; bfloat16 is widened to float32.

    Args:
        path: The file.
        limit: Bytes that it may have.
        wanted: Its checksum, None where nobody noted one.

    Raises:
        TorchferryError: it cannot be read, is too large, has another checksum, or is no safetensors file.
    """
    data = read(path, limit)
    if wanted is not None and checksum(data) != wanted:
        raise damaged(path, _changed())
    size = int.from_bytes(data[:8], "little")
    entries, metadata = _header(path, data[8 : 8 + size], size, len(data) - 8 - size)
    body = memoryview(data)[8 + size :]
    return {name: _array(entry, body[entry.begin : entry.end]) for name, entry in entries.items()}, metadata


def load_one(path: Path, name: str, wanted: str | None) -> Array | None:
    """Return one tensor of a file that may be larger than memory, or None where it is not there.

    Args:
        path: The file.
        name: Of the tensor.
        wanted: The checksum of the file, None where nobody noted one.

    Raises:
        TorchferryError: the file cannot be read, has another checksum, or is no safetensors file.
    """
    with opened(path, _WHOLE) as (file, length):
        if wanted is not None:
            found = 0
            while piece := file.read(_PIECE):
                found = zlib.crc32(piece, found)
            if f"{found:08x}" != wanted:
                raise damaged(path, _changed())
            file.seek(0)
        size = int.from_bytes(file.read(8), "little")
        entries, _ = _header(path, file.read(min(size, _HEADER)), size, length - 8 - size)
        entry = entries.get(name)
        if entry is None:
            return None
        file.seek(8 + size + entry.begin)
        data = file.read(entry.end - entry.begin)
        if len(data) != entry.end - entry.begin:
            raise damaged(path, say("it became shorter while it was read"))
        return _array(entry, memoryview(data))


def _changed() -> object:
    return say("its checksum is not the one that was noted when it was written")


def _header(path: Path, data: bytes, size: int, rest: int) -> tuple[dict[str, Entry], dict[str, str]]:
    """Return what a header says, if it is true of the bytes behind it."""
    if size > _HEADER or len(data) != size or rest < 0:
        raise damaged(
            path,
            say_plural(
                "its header of {count} byte does not fit", "its header of {count} bytes does not fit", count=size
            ),
        )
    found = parsed(path, data)
    try:
        metadata = {str(key): str(value) for key, value in found.pop("__metadata__", {}).items()}
        if len(found) > _ENTRIES:
            raise ValueError(f"{len(found)} tensors")
        entries = {name: _entry(one) for name, one in found.items()}
        end = 0
        for entry in sorted(entries.values(), key=lambda one: (one.begin, one.end)):
            if entry.begin != end:
                raise ValueError(f"a tensor begins at byte {entry.begin}, and not at {end}")
            end = entry.end
        if end != rest:
            raise ValueError(f"{rest} bytes, and tensors of {end}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, text(error)) from None
    return entries, metadata


def _entry(one: dict[str, Any]) -> Entry:
    shape = one["shape"]
    begin, end = one["data_offsets"]
    if one["dtype"] not in _DTYPES:
        raise ValueError(f"dtype {one['dtype']}")
    whole = [begin, end, *shape]
    if len(shape) > _DIMENSIONS or not all(type(size) is int and 0 <= size < 1 << 48 for size in whole):
        raise ValueError(f"shape {shape!s:.100}, bytes {begin!s:.40} to {end!s:.40}")
    entry = Entry(one["dtype"], tuple(shape), begin, end)
    if end - begin != math.prod(shape) * np.dtype(_DTYPES[entry.dtype]).itemsize:
        raise ValueError(f"shape {shape!s:.100} in {end - begin} bytes")
    return entry


def _array(entry: Entry, data: memoryview) -> Array:
    array: Array = np.frombuffer(data, _DTYPES[entry.dtype])
    if entry.dtype == "BF16":
        array = (array.astype("<u4") << 16).view("<f4")
    return array.reshape(entry.shape)


def values(data: str) -> Any:
    """Return what the JSON of a metadata says.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deeply.
    """
    return json.loads(data)
