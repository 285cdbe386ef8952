"""Read safetensors files into numpy, from bytes that may be hostile."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import reading
from torchferry.core.system import READ, open_file
from torchferry.numerics.runlog.layout import checksum

# Read files of a record that somebody sent: no link is followed, nothing is larger than it may be, nothing is run.

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_DOCUMENT = 1 << 24
_LINE = 1 << 23
_NAME_MOST = 1000


def damaged(path: Path, why: object) -> TorchferryError:
    """Return the error for a file that is not what a recording writes."""
    return TorchferryError(
        say("{path} is not part of a record, or is damaged: {why}", path=path, why=why),
        say("it may have been copied incompletely; copy it again, or record again"),
    )


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, for a name that the record itself gives.

    Raises:
        TorchferryError: the name leads elsewhere.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise damaged(folder, say("it names an invalid file `{name}`", name=name[:80]))
    return folder / name


@contextlib.contextmanager
def opened(path: Path, limit: int) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file, and give it with the number of bytes that it has now.

    Raises:
        TorchferryError: it is not there, is a link or no file, or has more than `limit` bytes.
    """
    try:
        handle = open_file(path, READ)
    except OSError as error:
        if path.is_symlink():
            raise damaged(path, say("it is a link; links are not followed")) from None
        raise TorchferryError(
            say("cannot read {path}: {error}", path=path, error=error.strerror),
            say("it may have been copied incompletely; copy it again, or record again"),
        ) from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise damaged(path, say("it is not a regular file"))
        if status.st_size > limit:
            raise _too_large(path, status.st_size, limit)
        try:
            yield file, status.st_size
        except OSError as error:
            raise TorchferryError(say("cannot read {path}: {error}", path=path, error=error.strerror)) from None


def read(path: Path, limit: int) -> bytes:
    """Return the content of a file.

    Raises:
        TorchferryError: as for `opened`.
    """
    with opened(path, limit) as (file, _):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, len(data), limit)
    return data


def _too_large(path: Path, size: int, limit: int) -> TorchferryError:
    return damaged(
        path,
        say_plural(
            "it has {count} byte; the limit is {limit}",
            "it has {count} bytes; the limit is {limit}",
            count=size,
            limit=limit,
        ),
    )


def document(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        TorchferryError: as for `opened`, or it is no JSON object.
    """
    return parsed(path, read(path, _DOCUMENT))


def lines(path: Path, limit: int, most: int) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the lines of a file of JSON lines with their objects; last an empty object where the last line has no end.

    That is a line of a killed program, or of a file that was cut short.

    Raises:
        TorchferryError: as for `opened`, or a line is no JSON object, or there are more than `most`.
    """
    with reading(path) as work, opened(path, limit) as (file, length):
        left = length  # what is added while we read is of no concern
        for number in itertools.count(1):
            line = file.readline(min(left, _LINE) + 1)[:left]
            left -= len(line)
            work.add(len(line))
            if not line:
                return
            if not line.endswith(b"\n"):
                if len(line) >= _LINE:
                    raise damaged(
                        path,
                        say_plural(
                            "line {number} has more than {count} byte",
                            "line {number} has more than {count} bytes",
                            number=number,
                            count=_LINE,
                        ),
                    )
                yield line, {}
                return
            if number > most:
                raise damaged(
                    path, say_plural("it has more than {count} line", "it has more than {count} lines", count=most)
                )
            yield line.rstrip(b"\n"), parsed(path, line)


def text(value: Any) -> str:
    """Return a text of a record without what would steer a terminal, and no longer than a name can be."""
    name = str(value)[:_NAME_MOST]
    return name if name.isprintable() else "".join(character if character.isprintable() else "?" for character in name)


def plain(value: Any, deepest: int = 16) -> Any:
    """Return a value of a record with its texts as `text` returns them, and what lies too deep as a text."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, (list, dict)) and not deepest:
        return "..."
    if isinstance(value, list):
        return [plain(item, deepest - 1) for item in value]
    if isinstance(value, dict):
        return {text(key): plain(item, deepest - 1) for key, item in value.items()}
    return value


def parsed(path: Path, data: bytes) -> dict[str, Any]:
    """Return the object that JSON holds.

    Raises:
        TorchferryError: it holds none, or one that names something twice.
    """
    try:
        document = parsed_json(data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise damaged(path, text(error)) from None
    if not isinstance(document, dict):
        raise damaged(path, _no_object())
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name is there twice")
    return fields


def _no_object() -> Message:
    return say("it contains no JSON object")


try:
    import numpy as np
except ImportError as _error:  # the extra is not installed
    raise TorchferryError(
        say("numpy is needed to read records: {error}", error=_error), say("`pip install 'torchferry[numerics]'`")
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


class TensorEntry(NamedTuple):
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
            begin = 0
            while piece := file.read(_PIECE):
                begin = zlib.crc32(piece, begin)
            if f"{begin:08x}" != wanted:
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
    return say("its checksum does not match its content")


def _header(path: Path, data: bytes, size: int, rest: int) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """Return what a header says, if it is true of the bytes behind it."""
    if size > _HEADER or len(data) != size or rest < 0:
        raise damaged(
            path,
            say_plural(
                "the length of its header is invalid: {count} byte",
                "the length of its header is invalid: {count} bytes",
                count=size,
            ),
        )
    header = parsed(path, data)
    try:
        metadata = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
        if len(header) > _ENTRIES:
            raise ValueError(f"{len(header)} tensors")
        entries = {name: _entry(fields) for name, fields in header.items()}
        end = 0
        for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
            if entry.begin != end:
                raise ValueError(f"a tensor begins at byte {entry.begin}, and not at {end}")
            end = entry.end
        if end != rest:
            raise ValueError(f"{rest} bytes, and tensors of {end}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, text(error)) from None
    return entries, metadata


def _entry(fields: dict[str, Any]) -> TensorEntry:
    shape = fields["shape"]
    begin, end = fields["data_offsets"]
    if fields["dtype"] not in _DTYPES:
        raise ValueError(f"dtype {fields['dtype']}")
    whole = [begin, end, *shape]
    if len(shape) > _DIMENSIONS or not all(type(size) is int and 0 <= size < 1 << 48 for size in whole):
        raise ValueError(f"shape {shape!s:.100}, bytes {begin!s:.40} to {end!s:.40}")
    entry = TensorEntry(fields["dtype"], tuple(shape), begin, end)
    if end - begin != math.prod(shape) * np.dtype(_DTYPES[entry.dtype]).itemsize:
        raise ValueError(f"shape {shape!s:.100} in {end - begin} bytes")
    return entry


def _array(entry: TensorEntry, data: memoryview) -> Array:
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
    return parsed_json(data)
