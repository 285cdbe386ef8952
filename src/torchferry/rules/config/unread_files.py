"""Files that a program names, in a form that is not read here, and that hold a CUDA device: tables, lists of values.

A file is searched to its end, piece by piece, so that its size does not decide. What cannot be searched is said.
"""

from __future__ import annotations

import ast
import codecs
import errno
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import BinaryIO

from torchferry.core.files import open_regular
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.source.kinds import kind_of

ENDINGS = (".txt", ".csv", ".tsv", ".dat", ".list", ".lst", ".opts", ".params", ".hparams", ".xml", ".config")
"""How the names of such files end."""

_CELL = lazy_regex(rb"(?m)(?:^|[,;|]|(?<![ \t]) *\t)[ \t]*[\"']?cuda(?::\d+)?[\"']?[ \t]*(?=$|[,;\t|])")
_VALUE = lazy_regex(rb"(?m)(?:^|[=:>])[ \t]*[\"']?cuda(?::\d+)?[\"']?[ \t]*(?=$|[,;<])")
_TABLES = (".csv", ".tsv")

_LARGEST = 1 << 30
"""Bytes of the largest file that is searched, which takes a second; only what is no settings has more."""

_PIECE = 1 << 20
"""Bytes that are searched at once."""

_OVERLAP = 1 << 12
"""Bytes of a piece that are searched again with the next one: more than a device and the blanks around it take."""


class NamedFile(NamedTuple):
    """A file of the project that a program names, in a form that is not read here.

    Attributes:
        literal: The text that names it.
        path: The file.
        why_unread: Why nobody knows what it holds; None where it holds a device.
    """

    literal: ast.Constant
    path: str
    why_unread: Message | str | None = None


def unread_files_with_device(context: PythonContext) -> Iterator[NamedFile]:
    """Yield the files that a program names which hold a device, or may hold one since they could not be searched."""
    if context.project is None:
        return
    for text in context.file.strings:
        name = str(text.value)
        if "\n" in name or not name.endswith(ENDINGS):
            continue
        path = context.project.unread_file(name, context.path)
        if path is None:
            continue
        try:
            if _holds_device(os.fspath(context.project.root), path):
                yield NamedFile(text, path)
        except FileNotFoundError:  # a link to nothing
            continue
        except OSError as error:
            yield NamedFile(text, path, _why(error))


def _why(error: OSError) -> Message | str:
    if error.errno == errno.EFBIG:
        return say("it has more than {limit} bytes", limit=_LARGEST)
    if error.errno == errno.EXDEV:
        return say("it is a link that leaves the project")
    return error.strerror or str(error)


def _holds_device(root: str, path: str) -> bool:
    """Whether a file holds a CUDA device, as a cell of a table or as a value.

    Raises:
        OSError: it cannot be searched; `errno.EXDEV` where it lies outside of the project.
    """
    real_root, whole = os.path.realpath(root), os.path.realpath(os.path.join(root, path))
    if not whole.startswith(real_root.rstrip(os.sep) + os.sep):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    if kind_of(whole.replace(os.sep, "/")) is not None:
        return False  # a link to a file that is read by itself
    status = os.stat(whole)
    if status.st_size > _LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return _search(whole, path.endswith(_TABLES), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _search(whole: str, is_table: bool, changed: int, size: int) -> bool:
    """Search a file, once for all programs that name it: `changed` and `size` tell it from what it was before."""
    with open_regular(whole) as file:
        return _is_in(_pieces(file), _CELL if is_table else _VALUE)


def _is_in(pieces: Iterable[bytes], pattern: re.Pattern[bytes]) -> bool:
    """Whether a text that comes in pieces holds a device, also one that two of them share."""
    searched = b"\n"  # the last bytes that were searched; what begins a text begins a line
    for piece in pieces:
        window = searched + piece
        # what ends where the window does may go on, and is met again in the next one
        if b"cuda" in window and any(match.end() < len(window) for match in pattern.finditer(window, 1)):
            return True
        searched = window[-_OVERLAP:]
    return pattern.search(searched, 1) is not None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file in pieces, in UTF-8 and with `\\n` between lines, whatever it has."""
    piece = file.read(_PIECE)
    decoder = None
    if piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
    piece = piece.removeprefix(codecs.BOM_UTF8)
    left = _LARGEST
    while piece:
        left -= len(piece)
        if left < 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), file.name)
        whole = piece if decoder is None else decoder.decode(piece).encode("utf-8", "replace")
        yield whole.replace(b"\r", b"\n")
        piece = file.read(_PIECE)
