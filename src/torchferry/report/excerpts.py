"""The code around a place, read from the project's files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torchferry.core.files import read_regular
from torchferry.core.finding import Location
from torchferry.report.side_by_side import lines_of
from torchferry.source.document import Document
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import kind_of
from torchferry.source.text import UndecodableError

AROUND = 3
"""Lines of code before and after a place."""

_MOST_FILES = 500
"""Files whose lines are kept at a time."""

ReadLines = Callable[[Location], Sequence[tuple[int, str]]]
"""Returns the lines around a place with their numbers; none where there are none to show."""


class CodeReader:
    """Reads the code around places, each file once.

    Args:
        root: The folder that the places are counted from.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines: dict[tuple[str, int], Sequence[str]] = {}

    def around(self, place: Location) -> Sequence[tuple[int, str]]:
        """Return the lines around a place with their numbers, from 1; none of what cannot be read."""
        key = (place.path, place.cell)
        if key not in self._lines:
            if len(self._lines) >= _MOST_FILES:
                self._lines.clear()
            self._lines[key] = self._read(place)
        text = self._lines[key]
        first, last = max(place.line - AROUND, 1), min(place.end_line + AROUND, len(text), place.line + 4 * AROUND)
        return [(number, text[number - 1]) for number in range(first, last + 1)]

    def _read(self, place: Location) -> Sequence[str]:
        kind = kind_of(place.path)
        if kind is None:
            return ()
        try:
            document = Document.read(place.path, kind, read_regular(self._root / place.path))
        except (OSError, UndecodableError, NotJsonError):
            return ()
        if not place.cell:
            return lines_of(document.source.text)
        cells = document.notebook.cells if document.notebook is not None else ()
        return next((lines_of(cell.text) for cell in cells if cell.number == place.cell), ())


def no_code(place: Location) -> Sequence[tuple[int, str]]:
    """Return no lines: for a report whose files are not at hand."""
    return ()
