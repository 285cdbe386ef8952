"""Events of a Chrome trace, read one after the other: a trace of a gigabyte is never in memory as a whole.

Both layouts are read: an object whose `traceEvents` is the list, and the list alone; compressed with gzip or not.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from torchferry.core.errors import TorchferryError
from torchferry.core.files import open_regular
from torchferry.core.messages import Message, say

_CHUNK = 4 << 20
"""Bytes that are read at a time."""

_COMPRESSED = 1 << 18
"""The same of a compressed file."""

_LARGEST = 64 << 20
"""Characters of one event, or of one entry beside the events; more is no trace."""

_GZIP = b"\x1f\x8b"
_OTHERS = (b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh", b"\xfd7zX")
"""How files begin that zstd, zip, bzip2 and xz wrote."""
_SPACE = " \t\r\n"

_HALF_NUMBER = re.compile(r"\.|(?:\.\d+)?[eE][+-]?")
"""The characters at which JSON ends a number that goes on: `2.5e` is read as 2.5 with something behind it."""


class EventStream:
    """The events of a file.

    Args:
        path: The file.
        progress: Is called with the number of bytes of the file that were read so far.

    Attributes:
        header: What is next to the events, by name; complete when all events are read.
        fault: What ended the events early; None where they are whole.
        is_cut: Whether the end of the file did.
        size: Bytes that were read, uncompressed.
    """

    def __init__(self, path: Path, progress: Callable[[int], None] | None = None) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.fault: Message | None = None
        self.is_cut = False
        self.size = 0
        self._progress = progress
        self._text = ""
        self._at = 0
        self._before = 0
        self._ended = False
        self._decode = json.JSONDecoder(strict=False).raw_decode
        self._utf8 = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the events.

        Raises:
            TorchferryError: the file cannot be read, or is no trace at all.
        """
        try:
            with open_regular(self.path) as raw:
                self._raw = raw
                self._file = self._opened(raw)
                yield from self._events()
        except OSError as error:
            raise TorchferryError(
                say("cannot read {path}: {error}", path=self.path, error=error.strerror or error)
            ) from None

    def _opened(self, raw: BinaryIO) -> BinaryIO | _Unzipped:
        first = raw.read(4)
        raw.seek(0)
        if first.startswith(_GZIP):
            return _Unzipped(raw)
        if first.startswith(_OTHERS):
            raise self._not_a_trace(say("its compression is not supported; unpack it, or use gzip"))
        return raw

    def _events(self) -> Iterator[dict[str, Any]]:
        opening = self._next_character()
        if opening == "[":
            yield from self._list()
        elif opening == "{":
            yield from self._members()
        elif opening or self._faulty():
            raise self._not_a_trace(self.fault or say("it begins with neither a list nor an object of JSON"))
        else:
            raise self._not_a_trace(say("it is empty"))

    def _members(self) -> Iterator[dict[str, Any]]:
        listed = False
        while not self._faulty() and (character := self._next_character()) != "}":
            if character == "":
                self._cut_off()
                break
            if character == ",":
                continue
            self._at -= 1
            key = self._value()
            if self._faulty():
                break
            colon = self._next_character()
            if colon == "":
                self._cut_off()
                break
            if not isinstance(key, str) or colon != ":":
                self._broken(say("it is not valid JSON at character {number}", number=self._before + self._at))
                break
            if key == "traceEvents" and self._next_character() == "[":
                listed = True
                yield from self._list()
            elif key != "traceEvents":
                value = self._value()
                if not self._faulty():
                    self.header[key] = value
        if not listed:
            raise self._not_a_trace(self.fault or say("it has no `traceEvents`"))

    def _list(self) -> Iterator[dict[str, Any]]:
        decode = self._decode
        while True:
            character = self._next_character()
            if character == "]":
                return
            if character == ",":
                continue
            if character == "":
                self._cut_off()
                return
            self._at -= 1
            try:
                event, self._at = decode(self._text, self._at)
            except ValueError:
                event = self._value()
                if self._faulty():
                    return
            except RecursionError:
                self._broken(say("it is not valid JSON at character {number}", number=self._before + self._at))
                return
            if isinstance(event, dict):
                yield event

    def _value(self) -> Any:
        """Return the value at the present place; None, with a fault, where there is none."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            try:
                value, end = self._decode(self._text, self._at)
                if end < len(self._text) or self._ended:  # a number at the very end may go on
                    self._at = end
                    return value
            except ValueError as error:
                if self._ended and isinstance(error, json.JSONDecodeError) and _is_cut(self._text, error):
                    self._cut_off()
                    return None
                if self._ended or len(self._text) - self._at > _LARGEST:
                    self._broken(say("it is not valid JSON: {error}", error=error))
                    return None
            except RecursionError:
                self._broken(say("it is not valid JSON at character {number}", number=self._before + self._at))
                return None
            self._more()

    def _next_character(self) -> str:
        """Return the next character that is no space and step over it; empty at the end."""
        while True:
            text, at = self._text, self._at
            length = len(text)
            while at < length and text[at] in _SPACE:
                at += 1
            if at < length:
                self._at = at + 1
                return text[at]
            self._at = at
            if self._ended:
                return ""
            self._more()

    def _more(self) -> None:
        try:
            chunk = self._file.read(max(_CHUNK, len(self._text) - self._at))
        except (EOFError, zlib.error):
            chunk = b""
            self.is_cut = True
            self._broken(say("its compressed data is damaged or cut off (bytes unpacked: {number})", number=self.size))
        self.size += len(chunk)
        self._ended = not chunk
        self._before += self._at
        self._text = self._text[self._at :] + self._utf8.decode(chunk, self._ended)
        self._at = 0
        if self._progress is not None:
            self._progress(self._raw.tell())

    def _faulty(self) -> bool:
        return self.fault is not None

    def _broken(self, problem: Message) -> None:
        self.fault = self.fault or problem
        self._ended = True

    def _cut_off(self) -> None:
        self.is_cut = True
        self._broken(say("it is cut off after byte {number}", number=self.size))

    def _not_a_trace(self, problem: Message) -> TorchferryError:
        if self.is_cut:
            return self.cut_before_all()
        return TorchferryError(
            say("{path} is not a trace: {problem}", path=self.path, problem=problem),
            say("give the JSON file that the profiler wrote, such as *.pt.trace.json, or its folder"),
        )

    def cut_before_all(self) -> TorchferryError:
        """Return the error of a trace that is cut off before anything that can be measured."""
        return TorchferryError(
            say(
                "{path} is cut off before anything that can be measured: {problem}", path=self.path, problem=self.fault
            ),
            say(
                "copy the file again, or record it again: let the program end by itself, because the "
                "profiler writes the file after the last step, and check that the disk is not full"
            ),
        )


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether a value only lacks its end, and is not wrong in itself."""
    rest = text[error.pos :].strip()
    words = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
    half = any(word.startswith(rest) for word in words) or _HALF_NUMBER.fullmatch(rest) is not None
    return half or "Unterminated" in error.msg or ("\\" in error.msg and len(rest) < 7)


class _Unzipped:
    """Reads a gzip file; of one that is cut off it returns all that is there, which `gzip.GzipFile` does not."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._rest = b""

    def read(self, most: int) -> bytes:
        """Return at most so many bytes; none at the end.

        Raises:
            EOFError: the file is cut off.
            zlib.error: the file is damaged.
        """
        while data := self._rest or self._raw.read(_COMPRESSED):
            if self._inflate.eof:  # a file may have several parts; after the last there may be anything
                if not data.startswith(_GZIP):
                    return b""
                self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
            part = self._inflate.decompress(data, most)
            self._rest = self._inflate.unconsumed_tail or self._inflate.unused_data
            if part:
                return part
        if not self._inflate.eof:
            raise EOFError
        return b""
