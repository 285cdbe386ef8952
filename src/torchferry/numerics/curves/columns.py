"""Values in columns of text that no name is next to: bare numbers, `step value`, and tables of training loops.

Two tables are known: a head whose first cell is `Epoch` over rows that begin with `3/299`, as YOLOv5 and
its successors print it with a progress bar behind (github.com/WongKinYiu/yolov7 train.py); and rows of RAFT's trainer,
`[   101, 0.0001241]    0.8, 0.9, 0.95, 1.2,` (github.com/princeton-vl/RAFT train.py, class Logger: running means of
1px, 3px, 5px and the end-point error, by name).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

from torchferry.core.messages import say
from torchferry.numerics.curves.records import Sample, Trouble, lines

_LOSS = "loss"
"""What values are called in a file of nothing else: the loss is what such files are written for."""

_OF_LOSS = frozenset({"box", "obj", "cls", "dfl", "seg", "kpt", "kobj", "theta", "total"})
"""Heads of columns that are losses, in tables that do not say so."""

_NO_VALUES = frozenset({"gpu_mem", "mem", "labels", "instances", "img_size", "size", "targets"})
_ROW = re.compile(r"(\d{1,9})/(\d{1,9})\Z")
_RAFT = re.compile(
    r"\s{0,8}\[\s{0,12}(\d{1,15}),\s{0,12}([\d.eE+-]{1,24})\]\s((?:\s{0,12}[\d.einaf+-]{1,24},){1,16})\s{0,8}\Z"
)
_RAFT_NAMES = ("1px", "3px", "5px", "epe")

_SEEN = 8
"""Lines by which a file of bare numbers is known; fewer where it has fewer, at least `_LEAST`."""

_LEAST = 3


def numbers_of(text: str) -> list[float] | None:
    """Return the numbers of a line of nothing else, separated by spaces, commas or tabs; None for another line."""
    cells = text.replace(",", " ").split()
    try:
        return [float(cell) for cell in cells] if 0 < len(cells) <= 2 else None
    except ValueError:
        return None


class ColumnReader:
    """Reads one log."""

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield what the columns of a file hold, in its order.

        Raises:
            TorchferryError: the file cannot be read.
        """
        first = [numbers_of(line.text) for line in islice((each for each in lines(path) if each.text.strip()), _SEEN)]
        widths = {0 if row is None else len(row) for row in first}
        if len(first) >= _LEAST and widths in ({1}, {2}):
            rows = [row for row in first if row is not None]
            if widths == {1} or _are_steps([row[0] for row in rows]):
                yield from _bare(path, widths == {2})
            return
        yield from _tables(path)


def _are_steps(values: list[float]) -> bool:
    """Whether values count steps: whole numbers, each larger than the one before."""
    if not all(0 <= value < 1e15 and value == int(value) for value in values):
        return False
    return all(before < after for before, after in pairwise(values))


def _bare(path: Path, with_steps: bool) -> Iterator[Sample | Trouble]:
    count = 0
    for line in lines(path):
        if not line.text.strip():
            continue
        numbers = numbers_of(line.text)
        if numbers is None or len(numbers) != 1 + with_steps or line.cut:
            yield Trouble(say("a line is not as those before it and was left out: {text}", text=line.text[:80]))
            continue
        yield Sample(_LOSS, numbers[-1], None, numbers[0] if with_steps else float(count))
        count += 1


def _tables(path: Path) -> Iterator[Sample | Trouble]:
    heads: list[str] = []
    for line in lines(path):
        raft = _RAFT.match(line.text)
        if raft is not None:
            values = [_float(cell) for cell in raft[3].split(",")[:-1]]
            names = _RAFT_NAMES if len(values) == len(_RAFT_NAMES) else [f"column {n + 1}" for n in range(len(values))]
            for name, value in zip(names, values, strict=True):
                if value is not None:
                    yield Sample(name, value, None, float(raft[1]))
            continue
        cells, has_bar = _cells(line.text)
        if len(cells) > 2 and cells[0].lower() == "epoch":
            heads = cells
        elif heads and len(cells) == len(heads) and (row := _ROW.match(cells[0])) is not None:
            if line.cut and not has_bar:
                continue
            for head, cell in zip(heads[1:], cells[1:], strict=True):
                value = _float(cell)
                if value is not None and head.lower() not in _NO_VALUES:
                    name = f"{head} loss" if head.lower() in _OF_LOSS else head
                    yield Sample(name, value, float(row[1]), None, None, has_bar)


def _cells(text: str) -> tuple[list[str], bool]:
    """Return the cells of a line up to one that ends with a colon, behind which a progress bar stands."""
    cells = text.split()[:64]
    for number, cell in enumerate(cells):
        if cell.endswith(":"):
            return [*cells[:number], cell[:-1]], True
    return cells, False


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
