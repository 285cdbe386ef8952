"""The lines of a text log, one at a time, whatever wrote it: progress bars, colours, several encodings, compressed."""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say

_CHUNK = 1 << 20
_LONGEST = 1 << 18
"""Characters of one line that are looked at; no training loop prints more, and a dump of a tensor may."""

_ENDS = re.compile(r"[\r\n]+")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[A-Za-z]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-_])|\x00")
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class Line(NamedTuple):
    """One line without its end; `cut` where the file stops in it."""

    text: str
    cut: bool = False


def lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file; a carriage return ends one too, so that each state of a progress bar is a line.

    Colours are removed, bytes that are no UTF-8 are replaced, and of a line of more than 256 K characters the rest is
    skipped. The file is never held as a whole.

    Raises:
        TorchferryError: the file cannot be read.
    """
    try:
        with _opened(path) as file:
            yield from _split(file)
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from None


def beginning(path: Path, size: int = 1 << 16) -> bytes:
    """Return the first bytes of a file, of what is compressed in it where it is compressed.

    Raises:
        TorchferryError: the file cannot be read.
    """
    try:
        with _opened(path) as file:
            return file.read(size)
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> TorchferryError:
    """Build the error for a file that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return TorchferryError(say("cannot read {path}: {error}", path=path, error=reason))


def decoded(data: bytes) -> str:
    """Return the text of `data` as `lines` would decode it."""
    return data.decode(_encoding(data), "replace")


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def _encoding(data: bytes) -> str:
    return next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")


def _split(file: IO[bytes]) -> Iterator[Line]:
    first = file.read(_CHUNK)
    decoder = codecs.getincrementaldecoder(_encoding(first))("replace")
    rest = ""
    skipping = False
    chunk = first
    while chunk:
        text = decoder.decode(chunk)
        pieces = _ENDS.split(rest + text)
        rest = pieces.pop()
        for piece in pieces:
            if not skipping and piece:
                yield Line(_clean(piece))
            skipping = False
        if len(rest) > _LONGEST:
            if not skipping:
                yield Line(_clean(rest[:_LONGEST]), cut=True)
            rest, skipping = "", True
        chunk = file.read(_CHUNK)
    rest += decoder.decode(b"", final=True)
    if rest and not skipping:
        yield Line(_clean(rest), cut=True)


def _clean(text: str) -> str:
    text = text[:_LONGEST]
    return _ESCAPE.sub("", text) if "\x1b" in text or "\x00" in text else text
