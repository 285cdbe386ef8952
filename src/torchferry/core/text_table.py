"""Tables: as aligned text, and as CSV that spreadsheet programs open as what it is."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from torchferry.core.messages import display_width
from torchferry.core.terminal import visible

_FORMULA = ("=", "+", "-", "@", "\t", "＝", "＋", "－", "＠")
"""What spreadsheet programs take for the start of a formula; the wide signs are escaped to be on the safe side."""


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as aligned text: the first column to the left, the others to the right."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0] + " " * (widths[0] - display_width(row[0]))]
        cells += [" " * (width - display_width(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  " + "  ".join(cells).rstrip()


def with_title(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table whose first row is its title, one step to the left of the others."""
    first, *rest = columns(rows)
    yield first[2:] if not first[2:].startswith(" ") else first
    yield from rest


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV, with the byte-order mark by which spreadsheet programs know UTF-8.

    Args:
        rows: The titles, and what is below; texts of others are written with `plain_cell`.
    """
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return "\ufeff" + out.getvalue()


def plain_cell(text: str) -> str:
    """Keep a spreadsheet from taking text out of somebody's source for a formula."""
    text = visible(text)
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) else text
