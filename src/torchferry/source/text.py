"""Text of one file with everything needed to write it back byte for byte where it was not edited."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, count
from operator import add

from torchferry.core.finding import Edit, Location
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

_COOKIE = lazy_regex(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # PEP 263
_BLANK = lazy_regex(rb"^[ \t\f]*(?:[#\r\n]|$)")
_WIDE = lazy_regex(r"[^\x00-\x7f]")
_NEWLINE = lazy_regex(r"\r\n|\r|\n")
_WIDE_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LIKELY_ENCODINGS = ("gb18030", "big5", "shift_jis", "euc_kr")

_PLAIN = frozenset({"utf-8", "utf8", "utf_8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso-8859-15"})
"""Encodings of which ASCII is a part, as coding cookies name them."""


class UndecodableError(Exception):
    """The bytes of a file are not text in the encoding that the file has; `message` says why."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.render("en"))
        self.message = message


class _WideCharacters(NamedTuple):
    """The characters of one line that take more than one byte in UTF-8.

    Attributes:
        columns: For each, the column behind it, in bytes.
        surplus: For each, how many bytes more than characters the line has up to that column.
    """

    columns: list[int]
    surplus: list[int]

    @staticmethod
    def of(text: str, start: int, end: int) -> _WideCharacters:
        """Return those of a line."""
        columns: list[int] = []
        surplus: list[int] = []
        more = 0
        for match in _WIDE.finditer(text, start, end):
            more += len(match.group().encode("utf-8", "surrogatepass")) - 1
            columns.append(match.end() - start + more)
            surplus.append(more)
        return _WideCharacters(columns, surplus)


class SourceText:
    """Decoded text, the encoding that gives the same bytes back, and the offsets of its lines.

    Offsets count characters of `text` from 0. Lines and columns count from 1, columns in characters. Lines
    end at LF, CRLF or CR, as Python's tokenizer has it; a form feed does not end a line.
    """

    def __init__(self, text: str, encoding: str = "utf-8", bom: bytes = b"") -> None:
        self.text = text
        self.encoding = encoding
        self.bom = bom
        self._starts: list[int] | None = None
        self._wide: dict[int, _WideCharacters] = {}
        self._ascii = text.isascii()

    def encode(self, text: str) -> bytes:
        """Return `text` as bytes in this file's encoding, with its byte-order mark.

        Raises:
            UnicodeEncodeError: the text holds a character that the encoding lacks.
        """
        return self.bom + text.encode(self.encoding)

    @property
    def starts(self) -> list[int]:
        """Offset of each line's first character."""
        if self._starts is None:
            text = self.text
            if "\r" in text:
                self._starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
            else:
                lines = text.split("\n")
                lines.pop()
                self._starts = [0, *map(add, accumulate(map(len, lines)), count(1))]
        return self._starts

    @property
    def newline(self) -> str:
        """The line ending that the file uses most."""
        counts = {"\r\n": self.text.count("\r\n")}
        counts["\n"] = self.text.count("\n") - counts["\r\n"]
        counts["\r"] = self.text.count("\r") - counts["\r\n"]
        best = max(counts, key=lambda ending: counts[ending])
        return best if counts[best] else "\n"

    def offset(self, line: int, utf8_column: int) -> int:
        """Return the offset of a position as `ast` gives it: line from 1, column in UTF-8 bytes from 0."""
        start = self.starts[line - 1]
        if self._ascii:
            return start + utf8_column
        wide = self._wide.get(line)
        if wide is None:
            end = self.starts[line] if line < len(self.starts) else len(self.text)
            wide = self._wide[line] = _WideCharacters.of(self.text, start, end)
        index = bisect_right(wide.columns, utf8_column) - 1
        return start + (utf8_column if index < 0 else utf8_column - wide.surplus[index])

    def utf8_position(self, offset: int) -> tuple[int, int]:
        """Return the position of an offset as `ast` has it: line from 1, column in UTF-8 bytes from 0."""
        line = bisect_right(self.starts, offset)
        column = offset - self.starts[line - 1]
        if self._ascii:
            return line, column
        return line, len(self.text[offset - column : offset].encode("utf-8", "surrogatepass"))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def span(self, location: Location) -> tuple[int, int]:
        """Return the offsets at which a location begins and ends."""
        starts = self.starts
        return starts[location.line - 1] + location.column - 1, starts[location.end_line - 1] + location.end_column - 1

    def line_text(self, line: int) -> str:
        """Return one line without its ending."""
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


def decode_python(data: bytes) -> SourceText:
    """Decode Python source as Python does: by byte-order mark, else by coding cookie, else as UTF-8.

    Raises:
        UndecodableError: Python itself could not read the file, or the text does not encode to the same bytes.
    """
    if data.startswith(codecs.BOM_UTF8):
        return _decode(data, "utf-8", codecs.BOM_UTF8)
    for bom, name in _WIDE_BOMS:
        if data.startswith(bom):
            raise UndecodableError(
                say(
                    "encoded as {encoding}, which Python does not accept for source; convert it to UTF-8",
                    encoding=name.upper(),
                )
            )
    encoding = _cookie(data)
    if encoding is None:
        try:
            return SourceText(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UndecodableError(_not_utf8(data, error)) from None
    try:
        info = codecs.lookup(encoding)
    except LookupError:
        raise UndecodableError(
            say(
                "its encoding declaration names `{encoding}`, which Python does not know; correct it", encoding=encoding
            )
        ) from None
    return _decode(data, info.name, b"")


def in_utf8(data: bytes) -> bytes:
    """Return the bytes of Python source in UTF-8, without a byte-order mark; as they are where they do not decode."""
    if data.isascii():
        return data
    if data.startswith(codecs.BOM_UTF8):
        return data[len(codecs.BOM_UTF8) :]
    if _cookie(data) is None:
        return data
    try:
        return decode_python(data).text.encode()
    except UndecodableError:
        return data


def decode_text(data: bytes) -> SourceText:
    """Decode a file that is not Python: by byte-order mark, else as UTF-8.

    Raises:
        UndecodableError: it is neither, or the text does not encode to the same bytes.
    """
    if data.startswith(codecs.BOM_UTF8):
        return _decode(data, "utf-8", codecs.BOM_UTF8)
    for bom, name in _WIDE_BOMS:
        if data.startswith(bom):
            return _decode(data, name, bom)
    try:
        return SourceText(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UndecodableError(_not_utf8(data, error)) from None


def _decode(data: bytes, encoding: str, bom: bytes) -> SourceText:
    body = data[len(bom) :]
    try:
        text = codecs.decode(body, encoding)
    except (UnicodeError, ValueError, TypeError) as error:
        raise UndecodableError(say("not valid {encoding}: {error}", encoding=encoding, error=error)) from None
    if not isinstance(text, str):
        raise UndecodableError(say("`{encoding}` is not a text encoding", encoding=encoding))
    try:
        same = text.encode(encoding) == body
    except UnicodeError:
        same = False
    if not same:
        raise UndecodableError(
            say(
                "its {encoding} text does not round-trip to the same bytes, so it cannot be edited",
                encoding=encoding,
            )
        )
    return SourceText(text, encoding, bom)


def is_plain(data: bytes) -> bool:
    """Whether the bytes of Python source are ASCII, and mean what they are in ASCII."""
    return data.isascii() and (b"coding" not in data[:1024] or (_cookie(data) or "utf-8").lower() in _PLAIN)


def _cookie(data: bytes) -> str | None:
    """Return the encoding that a coding cookie in the first two lines names (PEP 263)."""
    first, _, rest = data[:1024].replace(b"\r\n", b"\n").replace(b"\r", b"\n").partition(b"\n")
    match = _COOKIE.match(first)
    if match is None and _BLANK.match(first):
        match = _COOKIE.match(rest.partition(b"\n")[0])
    return match.group(1).decode("ascii", "replace") if match else None


def _not_utf8(data: bytes, error: UnicodeDecodeError) -> Message:
    for encoding in _LIKELY_ENCODINGS:
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return say(
            "not UTF-8 (byte {byte} at offset {offset}), perhaps {encoding}; convert it to UTF-8, or, if it is Python, "
            "declare its encoding (# -*- coding: {encoding} -*-)",
            byte=f"0x{data[error.start]:02x}",
            offset=error.start,
            encoding=encoding,
        )
    return say(
        "not UTF-8 (byte {byte} at offset {offset}); convert it to UTF-8",
        byte=f"0x{data[error.start]:02x}",
        offset=error.start,
    )


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with the edits applied; the order in which they are given does not matter.

    Raises:
        ValueError: two edits overlap, or one lies outside the text.
    """
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits):
        if edit.start < at or edit.end < edit.start or edit.end > len(text):
            raise ValueError(f"edit {edit} overlaps another or lies outside the text")
        pieces += (text[at : edit.start], edit.text)
        at = edit.end
    pieces.append(text[at:])
    return "".join(pieces)
