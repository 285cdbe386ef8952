"""The lists of operators that commands of `ops` write as JSON and read again.

They are untrusted: size, format and version are checked here, each value by the module that a list belongs to.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

_T = TypeVar("_T")

LARGEST_LIST = 64 << 20
"""Bytes of a list of operators."""


class ListFormat(NamedTuple):
    """One kind of such files.

    Attributes:
        name: The value of `format` in it.
        version: The value of `version` in it.
        largest: Bytes that it may have.
        is_none: Says of a path that it is no such file.
        again: How a file is written again.
    """

    name: str
    version: int
    largest: int
    is_none: Callable[[str], Message]
    again: Message


def read_list(path: Path, kind: ListFormat, parse: Callable[[dict[str, Any]], _T]) -> _T:
    """Return what `parse` makes of a file.

    Raises:
        TorchferryError: it cannot be read, is no such file, is of another version, or is damaged.
    """
    return parsed_list(read_document(path, kind.largest, kind.again), str(path), kind, parse)


def read_document(path: Path, largest: int = LARGEST_LIST, again: Message | None = None) -> Any:
    """Return what a file of JSON holds.

    Args:
        path: The file.
        largest: Bytes that it may have.
        again: How such a file is written again; None for one that somebody else writes.

    Raises:
        TorchferryError: it cannot be read, is too large, or is not JSON.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(largest + 1)
    except OSError as error:
        raise TorchferryError(say("{path} cannot be read: {error}", path=path, error=error.strerror)) from None
    if len(data) > largest:
        raise TorchferryError(
            say("{path} is too large for a list of operators: {size} B", path=path, size=size or len(data)), again
        )
    try:
        return parsed_json(data)
    except (ValueError, RecursionError):
        raise TorchferryError(say("{path} is not JSON; it may be cut off", path=path), again) from None


def parsed_list(document: Any, path: str, kind: ListFormat, parse: Callable[[dict[str, Any]], _T]) -> _T:
    """Return what `parse` makes of a document; it may raise KeyError, TypeError and ValueError.

    Raises:
        TorchferryError: it is no such document, is of another version, or is damaged.
    """
    if not isinstance(document, dict) or document.get("format") != kind.name:
        raise TorchferryError(kind.is_none(path), kind.again)
    if document.get("version") != kind.version:
        raise TorchferryError(
            say(
                "{path} has version {version} of its format; this torchferry reads version {own}",
                path=path,
                version=str(document.get("version"))[:20],
                own=kind.version,
            ),
            kind.again,
        )
    try:
        return parse(document)
    except (KeyError, TypeError, ValueError) as error:
        raise TorchferryError(
            say("{path} is damaged: {error}", path=path, error=f"{type(error).__name__}: {error}"[:200]), kind.again
        ) from None
