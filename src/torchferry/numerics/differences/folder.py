"""Read files of a record that somebody sent: no link is followed, nothing is larger than it may be, nothing is run."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_DOCUMENT = 1 << 24
_LINE = 1 << 24


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


def read(path: Path, limit: int) -> bytes:
    """Return the content of a file.

    Raises:
        TorchferryError: it is not there, is a link or no file, or has more than `limit` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if path.is_symlink():
            raise damaged(path, say("it is a link, and links are not followed")) from None
        raise TorchferryError(say("cannot read {path}: {error}", path=path, error=error.strerror)) from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise damaged(path, say("it is no file"))
        if status.st_size > limit:
            raise damaged(
                path, say("it has {size} bytes, where {limit} are the most", size=status.st_size, limit=limit)
            )
        return file.read(limit + 1)


def document(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        TorchferryError: as for `read`, or it is no JSON object.
    """
    return _object(path, read(path, _DOCUMENT))


def lines(path: Path, limit: int) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines; a last line without an end, of a killed program, is left out.

    Raises:
        TorchferryError: as for `read`, or a line is no JSON object.
    """
    for line in read(path, limit).splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return
        if len(line) > _LINE:
            raise damaged(path, say("a line has {size} bytes", size=len(line)))
        yield _object(path, line)


def text(value: Any) -> str:
    """Return a text of a record without what would steer a terminal."""
    found = str(value)
    return found if found.isprintable() else "".join(one if one.isprintable() else "?" for one in found)


def plain(value: Any) -> Any:
    """Return a value of a record with its texts as `text` returns them."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {text(key): plain(one) for key, one in value.items()}
    return value


def _object(path: Path, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(path, error) from None
    if not isinstance(found, dict):
        raise damaged(path, _no_object())
    return found


def _no_object() -> Message:
    return say("it holds no JSON object")
