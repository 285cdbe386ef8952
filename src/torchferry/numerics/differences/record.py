"""A record, read: its ranks, their steps, and the rows of a step."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.numerics.differences import layout as names
from torchferry.numerics.differences.container import LARGEST, Array, load
from torchferry.numerics.differences.folder import damaged, document, inside, lines, plain, text
from torchferry.numerics.differences.layout import Key

_ROWS_FILE = 1 << 27
_STEPS_FILE = 1 << 31
_RANKS = 1 << 14


@dataclass(frozen=True)
class Rows:
    """The rows of a step.

    Attributes:
        keys: What each row is.
        shapes: Its shape.
        arguments: What its operator was told.
        inputs: The rows that each used.
        sketch: float64 [rows, 61].
        sums: float64 [rows].
    """

    keys: list[Key]
    shapes: list[tuple[int, ...]]
    arguments: list[Any]
    inputs: list[tuple[int, ...]]
    sketch: Array
    sums: Array

    @cached_property
    def norms(self) -> Array:
        """The norm of each row's tensor, as the sketch estimates it; exact below 61 elements."""
        norms: Array = np.fmax(np.sqrt(np.square(self.sketch).sum(1)), self.least)
        return norms

    @cached_property
    def least(self) -> Array:
        """What each norm is at least, by its sum and length: of equal numbers a sketch may show little."""
        least: Array = np.abs(self.sums) / np.sqrt(np.clip(self.lengths, 1.0, names.SAMPLE))
        return np.where(np.isfinite(least), least, 0.0)

    @cached_property
    def lengths(self) -> Array:
        """How many elements each row's tensor has."""
        return np.asarray([float(np.prod(shape, dtype=np.float64)) for shape in self.shapes])

    @cached_property
    def marks(self) -> list[tuple[object, ...]]:
        """A mark for each row that is the same in each step: what it is, and the how many-th of its kind."""
        seen: dict[object, int] = {}
        marks: list[tuple[object, ...]] = []
        for key in self.keys:
            number = seen[key] = seen.get(key, -1) + 1
            marks.append((key._replace(dtype=""), number))
        return marks


@dataclass(frozen=True)
class Batch:
    """A tensor that the program was given."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class Draw:
    """A call that took random numbers."""

    operator: str
    module: str
    phase: str
    shape: tuple[int, ...]
    hash: str
    kept: int

    @property
    def rate(self) -> float:
        """The share of numbers that are not 0."""
        return self.kept / max(1, int(np.prod(self.shape, dtype=np.float64)))


@dataclass(frozen=True)
class Step:
    """A step of a rank, and where its rows are."""

    folder: Path
    number: int
    ended_by: str
    batch: tuple[Batch, ...]
    draws: tuple[Draw, ...]
    hashes: dict[int, str]
    numbers: dict[str, float]
    optimizers: dict[str, list[dict[str, Any]]]
    loss: tuple[int, ...]
    coarse: tuple[str, ...]
    sharded: bool
    dropped: int
    file: str
    kept_file: str

    def rows(self) -> Rows | None:
        """Return the step's rows, or None where it was not recorded operator by operator.

        Raises:
            TorchferryError: a file is missing or damaged.
        """
        return _rows(self.folder, self.file) if self.file else None

    def kept(self) -> dict[int, Array]:
        """Return the whole tensors that were kept, by row."""
        if not self.kept_file:
            return {}
        found, _ = load(inside(self.folder, self.kept_file), LARGEST)
        return {int(name): array for name, array in found.items() if name.isdigit()}


@dataclass(frozen=True)
class Rank:
    """What one rank recorded."""

    folder: Path
    number: int
    world: int
    facts: dict[str, dict[str, Any]]
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Record:
    """A record of all its ranks."""

    folder: Path
    ranks: list[Rank]

    @property
    def world(self) -> int:
        """How many ranks the run had."""
        return self.ranks[0].world


def read_record(folder: Path) -> Record:
    """Read a record's lines; its rows are read when they are asked for.

    Raises:
        TorchferryError: the folder holds no record, or a damaged one.
    """
    if not folder.is_dir():
        raise TorchferryError(
            say("{path} is no folder with a record", path=folder),
            say("`torchferry compare record -o {path} -- python train.py` makes one", path=folder),
        )
    found = sorted(
        (int(one.name.removeprefix(names.RANK)), one)
        for one in folder.iterdir()
        if re.fullmatch(rf"{names.RANK}\d{{1,5}}", one.name) and one.is_dir() and not one.is_symlink()
    )
    if not found or len(found) > _RANKS:
        raise TorchferryError(
            say("{path} is no folder with a record", path=folder),
            say("`torchferry compare record -o {path} -- python train.py` makes one", path=folder),
        )
    ranks = [_rank(path, number) for number, path in found]
    if not any(rank.steps for rank in ranks):
        raise TorchferryError(
            say("{path} holds a record without a step", path=folder),
            say("the program ended before its first step; what it printed may say why"),
        )
    return Record(folder, ranks)


def _rank(folder: Path, number: int) -> Rank:
    begin = document(folder / names.BEGIN)
    if begin.get("format") != names.FORMAT:
        raise damaged(folder / names.BEGIN, say("it is no record"))
    if begin.get("version") != names.VERSION:
        raise TorchferryError(
            say(
                "{path} is a record of version {version}, and this torchferry reads {known}",
                path=folder,
                version=begin.get("version"),
                known=names.VERSION,
            ),
            say("record both sides with the same torchferry"),
        )
    path = folder / names.STEPS
    try:
        facts = {
            text(group): {text(name): plain(value) for name, value in content.items()}
            for group, content in begin["facts"].items()
        }
        rank = Rank(folder, number, int(begin["world"]["size"]), facts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(folder / names.BEGIN, repr(error)) from None
    if path.exists() or path.is_symlink():
        try:
            rank.steps.extend(_step(folder, line) for line in lines(path, _STEPS_FILE))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(path, repr(error)) from None
    return rank


def _step(folder: Path, line: dict[str, Any]) -> Step:
    return Step(
        folder,
        int(line["step"]),
        str(line["ended_by"]),
        tuple(
            Batch(text(one["name"]), tuple(map(int, one["shape"])), text(one["dtype"]), tuple(map(text, one["hashes"])))
            for one in line.get("batch", ())
        ),
        tuple(
            Draw(
                text(one["operator"]),
                text(one["module"]),
                text(one["phase"]),
                tuple(map(int, one["shape"])),
                text(one["hash"]),
                int(one["kept"]),
            )
            for one in line.get("draws", ())
        ),
        {int(row): str(value) for row, value in line.get("hashes", {}).items()},
        {str(name): float(value) for name, value in line.get("numbers", {}).items()},
        {
            text(name): [{text(key): plain(value) for key, value in group.items()} for group in groups]
            for name, groups in line.get("optimizers", {}).items()
        },
        tuple(map(int, line.get("loss", ()))),
        tuple(map(str, line.get("coarse", ()))),
        bool(line.get("sharded", False)),
        int(line.get("dropped", 0)),
        str(line.get("rows", "")),
        str(line.get("tensors", "")),
    )


def _rows(folder: Path, name: str) -> Rows:
    path = inside(folder, name)
    tensors, metadata = load(path, _ROWS_FILE)
    try:
        layout_path = inside(folder, f"layout-{metadata['layout']}.safetensors")
    except KeyError:
        raise damaged(path, say("it names no layout")) from None
    placed, described = load(layout_path, _ROWS_FILE)
    try:
        keys = [
            Key(text(k[0]), text(k[1]), text(k[2]), text(k[3]), int(k[4]), text(k[5]), bool(k[6]))
            for k in json.loads(described["keys"])
        ]
        shapes = [tuple(map(int, shape)) for shape in json.loads(metadata["shapes"])]
        told = list(plain(json.loads(metadata["arguments"])))
        count = len(placed[names.KEY])
        sketch, sums = tensors[names.SKETCH].astype(np.float64), tensors[names.SUM].astype(np.float64)
        if sketch.shape != (count, names.WIDTH) or sums.shape != (count,):
            raise ValueError(f"{count} rows and a sketch of {sketch.shape}")
        inputs: list[list[int]] = [[] for _ in range(count)]
        for used, by in zip(placed[names.INPUTS].tolist(), placed[names.INPUTS_OF].tolist(), strict=True):
            if not 0 <= used < by < count:
                raise ValueError(f"row {by} uses row {used}")
            inputs[by].append(used)
        return Rows(
            [keys[place] for place in _places(placed[names.KEY], len(keys))],
            [shapes[place] for place in _places(tensors[names.SHAPE], len(shapes))],
            [told[place] for place in _places(tensors[names.ARGUMENTS], len(told))],
            [tuple(one) for one in inputs],
            sketch,
            sums,
        )
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise damaged(path, repr(error)) from None


def _places(array: Array, count: int) -> Iterator[int]:
    """Yield places in a list of `count`, none of them outside."""
    if array.ndim != 1 or (len(array) and not 0 <= int(array.min()) <= int(array.max()) < count):
        raise ValueError("a place is outside of its list")
    yield from array.tolist()
