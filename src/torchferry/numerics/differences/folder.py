"""Read files of a record that somebody sent: no link is followed, nothing is larger than it may be, nothing is run."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say, say_plural

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_DOCUMENT = 1 << 24
_LINE = 1 << 23
_NAME_MOST = 1000


def damaged(path: Path, why: object) -> TorchferryError:
    """Return the error for a file that is not what a recording writes."""
    return TorchferryError(
        say("{path} is no part of a record, or is damaged: {why}", path=path, why=why),
        say("was it cut short while it was copied? record again, or copy it again"),
    )


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, for a name that the record itself gives.

    Raises:
        TorchferryError: the name leads elsewhere.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise damaged(folder, say("it names a file `{name}`", name=name[:80]))
    return folder / name


@contextlib.contextmanager
def opened(path: Path, limit: int) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file, and give it with the number of bytes that it has now.

    Raises:
        TorchferryError: it is not there, is a link or no file, or has more than `limit` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise damaged(path, say("it is a link, and links are not followed")) from None
        raise TorchferryError(
            say("cannot read {path}: {error}", path=path, error=error.strerror),
            say("was it cut short while it was copied? record again, or copy it again"),
        ) from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise damaged(path, say("it is no file"))
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
            "it has {count} byte, where {limit} are the most",
            "it has {count} bytes, where {limit} are the most",
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
    with opened(path, limit) as (file, length):
        left = length  # what is added while we read is of no concern
        for number in itertools.count(1):
            line = file.readline(min(left, _LINE) + 1)[:left]
            left -= len(line)
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
    found = str(value)[:_NAME_MOST]
    return found if found.isprintable() else "".join(one if one.isprintable() else "?" for one in found)


def plain(value: Any, deepest: int = 16) -> Any:
    """Return a value of a record with its texts as `text` returns them, and what lies too deep as a text."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, (list, dict)) and not deepest:
        return "..."
    if isinstance(value, list):
        return [plain(one, deepest - 1) for one in value]
    if isinstance(value, dict):
        return {text(key): plain(one, deepest - 1) for key, one in value.items()}
    return value


def parsed(path: Path, data: bytes) -> dict[str, Any]:
    """Return the object that JSON holds.

    Raises:
        TorchferryError: it holds none, or one that names something twice.
    """
    try:
        found = json.loads(data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise damaged(path, text(error)) from None
    if not isinstance(found, dict):
        raise damaged(path, _no_object())
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_object() -> Message:
    return say("it holds no JSON object")
