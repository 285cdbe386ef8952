"""Values in a table with a header: CSV as Lightning, Ultralytics, TensorBoard and spreadsheets write it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from torchferry.core.messages import say_plural
from torchferry.numerics.curves.lines import Line, lines
from torchferry.numerics.curves.record import samples_of
from torchferry.numerics.curves.sample import Sample, Trouble

_DELIMITERS = ("\t", ";", ",")


def delimiter_of(header: str) -> str:
    """Return what parts the columns of a header; empty where it is no header of a table."""
    best = max(_DELIMITERS, key=header.count)
    cells = [cell.strip().strip('"') for cell in header.split(best)]
    # a header names every column, and no name is a number
    if header.count(best) < 1 or not all(cells[1:]) or any(_numeric(cell) for cell in cells):
        return ""
    return best


class TableReader:
    """Reads one table; empty cells, such as of a column that is written every other row, are left out."""

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield the numbers of the table, row by row.

        Raises:
            TorchferryError: the file cannot be read.
        """
        source = lines(path)
        header = next(source, Line("")).text
        delimiter = delimiter_of(header) or ","
        names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
        for line in source:
            try:
                cells = next(csv.reader([line.text], delimiter=delimiter), [])
            except csv.Error:
                cells = []
            if [cell.strip() for cell in cells] == names:
                continue  # a run that was started again writes its header again
            if len(cells) != len(names):
                yield Trouble(
                    say_plural(
                        "a row has {count} cell and not {wanted}; it was left out: {text}",
                        "a row has {count} cells and not {wanted}; it was left out: {text}",
                        count=len(cells),
                        wanted=len(names),
                        text=line.text[:80],
                    )
                )
                continue
            row = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
            if line.cut:
                row.pop(names[-1])
            yield from samples_of(row)


def _numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
