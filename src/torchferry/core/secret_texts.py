"""The texts in which secrets are looked for: a file's content in each way that it can be read, and without escapes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple

_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_SAMPLE = 4096
_CONTROLS = bytes(letter for letter in range(32) if letter not in b"\0\t\n\r\f\v\b\x1b") + b"\x7f"
_MOST_CONTROLS = 50
"""One of so many bytes may be a control character in a text; of random bytes one of ten is."""

_RUN = lazy_regex(rb"[\t\n\r -~]{6,}")
_WIDE_RUN = lazy_regex(rb"(?:[\t\n\r -~]\0){8,}")


def texts_of(data: bytes) -> Iterator[tuple[str, bool]]:
    """Yield a file's content as text in each encoding that it may have, and whether it is the whole file.

    Of a binary file the printable runs are yielded.
    """
    marked = [encoding for mark, encoding in _MARKS if data.startswith(mark)]  # a NUL may follow the mark of UTF-16
    if marked:
        for encoding in marked:
            yield data.decode(encoding, "replace"), True
        return
    if b"\0" not in data:
        yield from _narrow(data)
        return
    first = (len(data) - len(data.lstrip(b"\0"))) // 4 * 4
    for encoding in _WIDE:
        if _is_written(data[first : first + _SAMPLE].decode(encoding, "replace").replace("\0", "")):
            yield data.decode(encoding, "replace"), True
    if not (_has_controls(data[first : first + _SAMPLE]) or _has_controls(data)):
        yield from _narrow(data.replace(b"\0", b" "))  # a text with some, as one that a crash cut short
        return
    yield b"\n\n".join(_RUN.findall(data)).decode("ascii"), False
    yield b"\n\0\n\0".join(_WIDE_RUN.findall(data)).decode("utf-16-le"), False


def _has_controls(data: bytes) -> bool:
    """Whether data has more control characters than a text has, but for NUL bytes."""
    without = data.translate(None, b"\0")
    return (len(without) - len(without.translate(None, _CONTROLS))) * _MOST_CONTROLS > len(without)


def _narrow(data: bytes) -> Iterator[tuple[str, bool]]:
    try:
        yield data.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        yield data.decode("utf-8", "replace"), True
        yield data.decode("gb18030", "replace"), True


def _is_written(sample: str) -> bool:
    """Whether text was decoded as it was written: it has few characters that nobody writes, and some of ASCII."""
    good = len(_WRITTEN.findall(sample))
    return good * 10 >= len(sample) * 9 and any(letter < "\x80" for letter in sample)


_WRITTEN = re.compile("[\t\n\r -~\xa0-\u04ff\u2000-\u206f\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\ufeff\uff00-\uffef]")


# --- as a reader sees it ---


class View(NamedTuple):
    """A text in which escapes are undone.

    Attributes:
        text: The text.
        places: Where in it, behind what was undone, the places of the original move.
        moves: By how many characters they do.
        widths: How many characters represent what was undone.
    """

    text: str
    places: list[int]
    moves: list[int]
    widths: list[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the original that a part of this is."""
        last = bisect_left(self.places, end)
        if last < len(self.places) and self.places[last] == end and self.widths[last]:
            last += 1  # it ends with an escape; a colour behind it stays
        return start + self.moves[bisect_right(self.places, start) - 1], end + self.moves[last - 1]


_UNDONE = lazy_regex(
    r"(?P<colour>(?:\x1b|\\{1,2}(?:u001[bB]|x1[bB]|033|e))\[[0-9;:?]{0,40}[A-Za-z])"
    r"|(?P<lines>\\n\",[ \t]{0,40}(?:\r?\n[ \t]{0,80})?\")"
    r"|\\{1,2}(?:u(?P<wide>[0-9a-fA-F]{4})|x(?P<narrow>[0-9a-fA-F]{2})|(?P<slash>/))"
)
"""Codes of colours, the end of one line and the begin of the next in a notebook, and characters in other words."""

_ESCAPES = ("\x1b[", "\\u", "\\x", "\\033", "\\e[", "\\/", '\\n",')
"""One of these is in each text with such."""


def views(text: str) -> Iterator[View]:
    """Yield a text as it is, and as it is meant: with its escapes undone and without colours, where it has some.

    A colour may be within a word, and between two: both are yielded.
    """
    yield View(text, [0], [0], [0])
    if not any(mark in text for mark in _ESCAPES):
        return
    undone, has_colours = _undone(text, "")
    if len(undone.places) > 1:
        yield undone
    if has_colours:
        yield _undone(text, " ")[0]


def _undone(text: str, colour: str) -> tuple[View, bool]:
    parts: list[str] = []
    places, moves, widths = [0], [0], [0]
    at = length = 0
    has_colours = False
    for match in _UNDONE.finditer(text):
        if match["colour"]:
            new, has_colours = colour, True
        elif match["lines"]:
            new = "\n"
        elif match["slash"]:
            new = "/"
        else:
            new = chr(int(match["wide"] or match["narrow"], 16))
            if not new.isprintable() or new in "\"'`\\":
                continue
        parts += (text[at : match.start()], new)
        length += match.start() - at + len(new)
        at = match.end()
        places.append(length)
        moves.append(at - length)
        widths.append(len(new))
    parts.append(text[at:])
    return View("".join(parts), places, moves, widths), has_colours
