"""The logs: files, folders and standard input, read block by block; what is not read is said.

A log can be cut in a line, have other bytes in it, be of any encoding and of any size. Links are not followed. Of a
file beyond `MOST_OF_FILE` the head and the tail are read: a failure is at the end, and what led to it at the start.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from torchferry.core.errors import UsageError
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.system import READ_ANY

STANDARD_INPUT = "-"

MOST_OF_FILE = 256 << 20
"""Bytes of a file that are read whole; of a larger one the head and the tail are, as many together."""

HEAD = 64 << 20
MOST_FILES = 20_000
BLOCK = 1 << 20
LONGEST_LINE = 1 << 20
"""Bytes of a line; a longer one is looked at in parts."""

_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_EXAMINED = 8192
_MOST_CONTROL = 0.03
"""Share of control characters above which a file is no log."""

_CONTROL = bytes(set(range(1, 32)) - {7, 8, 9, 10, 12, 13, 27})
_HOLE = lazy_regex(rb"\x00+")
_MOST_HOLES = 8
"""Runs of zeros that a log may begin with: a machine that fell over leaves one, a binary file has them everywhere."""


class LogFile(NamedTuple):
    """A log.

    Attributes:
        name: As it is shown, relative to the folder that was named.
        path: The file; None for standard input.
        start: Bytes at its beginning that are not of the run.
    """

    name: str
    path: Path | None
    start: int = 0


class NotRead(NamedTuple):
    """What was not looked at, and why."""

    name: str
    reason: Message


class Block(NamedTuple):
    """A part of a log: whole lines, and the number of its first one; 0 where lines before it were not read."""

    data: bytes
    line: int


class LogReader:
    """Reads logs; `not_read` grows with what could not be looked at.

    Attributes:
        files: The logs, in the order of their names.
        not_read: What was left out so far.
        size: Bytes that were read so far.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.files: list[LogFile] = []
        self.not_read: list[NotRead] = []
        self.size = 0
        for path in paths:
            if str(path) == STANDARD_INPUT:
                self.files.append(LogFile(STANDARD_INPUT, None))
            elif path.is_dir():
                self._walk(path)
            else:
                self.files.append(LogFile(str(path), path))

    def _walk(self, top: Path) -> None:
        links, real = 0, top.resolve()
        for folder, folders, names in os.walk(top, onerror=self._no_folder):
            folders.sort()
            for name in sorted(names):
                path = Path(folder, name)
                if path.is_symlink():
                    links += not _leads_into(path, real)
                elif len(self.files) >= MOST_FILES:
                    reason = say("there are more files than {number}; name the folders of one run", number=MOST_FILES)
                    self.not_read.append(NotRead(str(top), reason))
                    return
                else:
                    self.files.append(LogFile(str(path), path))
            links += sum(
                path.is_symlink() and not _leads_into(path, real) for path in map(Path(folder).joinpath, folders)
            )
        if links:
            reason = say_plural("{count} link, not followed", "{count} links, not followed", count=links)
            self.not_read.append(NotRead(str(top), reason))

    def _no_folder(self, error: OSError) -> None:
        reason = say("cannot be read: {error}", error=error.strerror or str(error))
        self.not_read.append(NotRead(str(error.filename), reason))

    @property
    def expected(self) -> int | None:
        """How many bytes are to be read, as far as sizes tell; None for standard input, which has none."""
        sizes = []
        for file in self.files:
            if file.path is None:
                return None
            with contextlib.suppress(OSError):
                sizes.append(min(max(file.path.stat().st_size - file.start, 0), MOST_OF_FILE))
        return sum(sizes)

    def blocks(self, file: LogFile) -> Iterator[Block]:
        """Yield a log in blocks; nothing for what is no log, of which `not_read` then says why.

        Raises:
            UsageError: standard input is asked for and closed.
        """
        if file.path is None:
            if sys.stdin is None:
                raise UsageError(say("standard input is closed"), say("name files or folders"))
            yield from self._lines(file, sys.stdin.buffer, None)
            return
        try:
            descriptor = os.open(file.path, READ_ANY)
            with open(descriptor, "rb") as stream:
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode):
                    stream.seek(file.start)
                    yield from self._lines(file, stream, max(0, status.st_size - file.start))
                else:
                    self.not_read.append(NotRead(file.name, say("not a regular file")))
        except OSError as error:
            self.not_read.append(NotRead(file.name, say("cannot be read: {error}", error=error.strerror or str(error))))

    def _lines(self, file: LogFile, stream: BinaryIO, size: int | None) -> Iterator[Block]:
        head = stream.read(_EXAMINED)
        if not head:
            return
        reason = _no_log(head)
        if reason is not None:
            self.not_read.append(NotRead(file.name, reason))
            return
        encoding = next((name for mark, name in _WIDE.items() if head.startswith(mark)), "")
        if size is None or size <= MOST_OF_FILE or encoding:
            limit = MOST_OF_FILE if encoding and size is not None else None
            yield from self._whole_lines(_pieces(head, stream, limit, encoding), 1)
            if limit is not None and size is not None and size > limit:
                self._left_out(file, size - limit)
            return
        yield from self._whole_lines(_pieces(head, stream, HEAD, ""), 1)
        stream.seek(file.start + size - (MOST_OF_FILE - HEAD))
        stream.readline(LONGEST_LINE)  # the rest of a line that began in what is left out
        self._left_out(file, size - MOST_OF_FILE)
        yield from self._whole_lines(_pieces(b"", stream, None, ""), 0)

    def _left_out(self, file: LogFile, size: int) -> None:
        reason = say("{size} MiB between its head and its tail", size=size >> 20)
        self.not_read.append(NotRead(file.name, reason))

    def _whole_lines(self, pieces: Iterator[bytes], line: int) -> Iterator[Block]:
        rest = b""
        for piece in pieces:
            self.size += len(piece)
            end = piece.rfind(b"\n") + 1
            if not end:
                rest += piece
                if len(rest) < LONGEST_LINE:
                    continue
                block, rest = rest, b""
            else:
                block, rest = rest + piece[:end], piece[end:]
            yield Block(block, line)
            line += block.count(b"\n") if line else 0
        if rest:
            yield Block(rest, line)


def _leads_into(link: Path, folder: Path) -> bool:
    """Whether a link leads to what is read anyway, at its own place in a folder."""
    try:
        return link.resolve(strict=True).is_relative_to(folder)
    except (OSError, RuntimeError):  # it leads nowhere, or in a circle
        return False


def _pieces(head: bytes, stream: BinaryIO, limit: int | None, encoding: str) -> Iterator[bytes]:
    """Yield what a stream holds, to a limit, as UTF-8 where the encoding is a wide one."""
    decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
    taken, piece = 0, head
    while piece or not taken:
        if piece:
            yield piece if decoder is None else decoder.decode(piece).encode("utf-8", "replace")
        taken += max(len(piece), 1)
        if limit is not None and taken >= limit:
            return
        piece = stream.read(BLOCK)


def _no_log(head: bytes) -> Message | None:
    """Return why a file is no log by its first bytes; None for one that may be."""
    packed = next((name for mark, name in _PACKED.items() if head.startswith(mark)), "")
    if packed:
        return say("packed with {program}; unpack it first", program=packed)
    if head.startswith((*_WIDE,)):
        return None
    control = len(head) - len(head.translate(None, _CONTROL))
    is_binary = control > _MOST_CONTROL * len(head) or len(_HOLE.findall(head)) > _MOST_HOLES
    return say("binary") if is_binary else None
