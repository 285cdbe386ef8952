"""A record, read: its ranks, their steps, and the rows of a step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.container import (
    Array,
    damaged,
    inside,
    lines,
    load,
    load_one,
    parsed,
    plain,
    read,
    text,
    values,
)
from torchferry.numerics.runlog.layout import Key

_BEGIN_FILE = 1 << 24
_ROWS_FILE = 1 << 26
_STEPS_FILES = 1 << 30
"""Bytes that the lines of all ranks may have."""

_STEPS = 1 << 19
"""Steps of all ranks: more than a recording of the usual size has room for."""

_RANKS = 1 << 14
_DIMENSIONS = 64
_NUMBER = 1 << 53

_WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading a document raises that is not what a recording writes."""


@dataclass(frozen=True)
class RecordedRows:
    """The rows of a step.

    Attributes:
        keys: What each row is.
        shapes: Its shape.
        arguments: What its operator was told.
        inputs: The rows that each used.
        sketch: float64 [rows, 61]; of an update it is that of the parameter after it, less that before it.
        sums: float64 [rows].
        outputs: The rows that are what a module gave, in the order of its calls, by its path.
    """

    keys: list[Key]
    shapes: list[tuple[int, ...]]
    arguments: list[Any]
    inputs: list[tuple[int, ...]]
    sketch: Array
    sums: Array
    outputs: dict[str, list[int]] = field(default_factory=dict)

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
    def whole(self) -> Array:
        """Which rows are of integers or booleans, whose sketches are exact."""
        return np.asarray([not key.dtype.startswith(names.FLOATING) for key in self.keys], bool)

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


@dataclass(frozen=True, slots=True)
class RecordedStep:
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
    checksums: dict[str, str] | None

    def rows(self) -> RecordedRows | None:
        """Return the step's rows, or None where it was not recorded operator by operator.

        Raises:
            TorchferryError: a file is missing or damaged.
        """
        return _rows(self.folder, self.file, self.checksums) if self.file else None

    def kept(self, row: int) -> Array | None:
        """Return the whole tensor of a row, or None where it was not kept."""
        if not self.kept_file:
            return None
        wanted = None if self.checksums is None else _noted(self.folder, self.kept_file, self.checksums)
        return load_one(inside(self.folder, self.kept_file), str(row), wanted)


@dataclass(frozen=True)
class Rank:
    """What one rank recorded.

    Attributes:
        folder: Its part of the record.
        number: Its rank.
        world: How many ranks the run had.
        facts: What the program was told besides its numbers.
        version: Of the record's format.
        steps: What is there of each step.
        made: Steps that the run made; fewer may be recorded. As many as are there where the record has no end.
        ended: Why the recording ended before the run; empty where it did not, None where the record has no end.
        cut: Whether the last line has no end.
        unobserved: Calls that were not observed, by operator.
    """

    folder: Path
    number: int
    world: int
    facts: dict[str, dict[str, Any]]
    version: int
    steps: list[RecordedStep] = field(default_factory=list)
    made: int = 0
    ended: str | None = None
    cut: bool = False
    unobserved: dict[str, int] = field(default_factory=dict)


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
    """Read a record's lines; its rows are read when they are requested.

    Raises:
        TorchferryError: the folder holds no record, or a damaged one.
    """
    if not folder.is_dir():
        raise TorchferryError(
            say("{path} is not a folder with a record", path=folder),
            say("`torchferry compare record -o {path} -- python train.py` makes one", path=folder),
        )
    folders = sorted(
        (int(entry.name.removeprefix(names.RANK)), entry)
        for entry in folder.iterdir()
        if re.fullmatch(rf"{names.RANK}\d{{1,5}}", entry.name) and entry.is_dir() and not entry.is_symlink()
    )
    if not folders or len(folders) > _RANKS:
        raise TorchferryError(
            say("{path} is not a folder with a record", path=folder),
            say("`torchferry compare record -o {path} -- python train.py` makes one", path=folder),
        )
    ranks: list[Rank] = []
    steps = size = 0
    for number, path in folders:
        rank = _rank(path, number, _STEPS_FILES - size, _STEPS - steps)
        steps += len(rank.steps)
        size += (path / names.STEPS).lstat().st_size if rank.steps else 0
        ranks.append(rank)
    if not any(rank.steps for rank in ranks):
        raise TorchferryError(
            say("{path} contains a record without steps", path=folder),
            say("the program ended before its first step; what it printed may say why"),
        )
    return Record(folder, ranks)


def _rank(folder: Path, number: int, bytes_left: int, steps_left: int) -> Rank:
    begin = _document(folder / names.BEGIN)
    if begin.get("format") != names.FORMAT:
        raise damaged(folder / names.BEGIN, say("it is not a record"))
    version = begin.get("version")
    if version not in (names.VERSION, names.WITHOUT_STATES, names.WITHOUT_CHECKSUMS):
        raise TorchferryError(
            say(
                "{path} is a record of version {version}, but this torchferry reads {known}",
                path=folder,
                version=text(version)[:20],
                known=f"{names.WITHOUT_CHECKSUMS}, {names.WITHOUT_STATES}, {names.VERSION}",
            ),
            say("record both sides with the same torchferry"),
        )
    sealed = version != names.WITHOUT_CHECKSUMS
    try:
        facts = {
            text(group): {text(name): plain(value) for name, value in content.items()}
            for group, content in begin["facts"].items()
        }
        rank = Rank(folder, number, _count(begin["world"]["size"]), facts, version)
    except _WRONG as error:
        raise damaged(folder / names.BEGIN, text(repr(error))) from None
    path = folder / names.STEPS
    cut = False
    if path.exists() or path.is_symlink():
        try:
            for data, line in lines(path, bytes_left, steps_left):
                if not line:
                    cut = True
                    break
                if sealed and not names.is_sealed(data):
                    what = say("the checksum of line {number} does not match its content", number=len(rank.steps) + 1)
                    raise damaged(path, what)
                step = _step(folder, line, sealed)
                if rank.steps and step.number <= rank.steps[-1].number:
                    raise ValueError(f"step {step.number} after step {rank.steps[-1].number}")
                rank.steps.append(step)
        except _WRONG as error:
            raise damaged(path, text(repr(error))) from None
    count, ended, unobserved = _end(folder / names.END, sealed)
    made = max(count, rank.steps[-1].number + 1 if rank.steps else 0)
    return replace(rank, made=made, ended=ended, cut=cut, unobserved=unobserved)


def _document(path: Path) -> dict[str, Any]:
    """Return a document of a record; one that says that it has a checksum must have the right one."""
    data = read(path, _BEGIN_FILE)
    document = parsed(path, data)
    if "crc32" in document and not names.is_sealed(data):
        raise damaged(path, say("its checksum does not match its content"))
    return document


def _end(path: Path, sealed: bool) -> tuple[int, str | None, dict[str, int]]:
    """Return how many steps the run made, why the recording ended before, and what was not observed.

    The reason is None where nothing says it.
    """
    if not (path.exists() or path.is_symlink()):
        return 0, None, {}
    end = _document(path)
    if sealed and "crc32" not in end:
        raise damaged(path, say("its checksum does not match its content"))
    try:
        unobserved = {text(name): _count(count) for name, count in end.get("unobserved", {}).items()}
        return _count(end["steps"]), text(end.get("ended", "")), unobserved
    except _WRONG as error:
        raise damaged(path, text(repr(error))) from None


def _count(value: Any) -> int:
    """Return a number of steps, rows or elements.

    Raises:
        ValueError: it is none.
    """
    if type(value) is not int or not 0 <= value < _NUMBER:
        raise ValueError(f"{value!s:.40} is no count")
    return value


def _shape(value: Any) -> tuple[int, ...]:
    if len(value) > _DIMENSIONS:
        raise ValueError(f"{len(value)} dimensions")
    return tuple(map(_count, value))


def _step(folder: Path, line: dict[str, Any], sealed: bool) -> RecordedStep:
    return RecordedStep(
        folder,
        _count(line["step"]),
        text(line["ended_by"]),
        tuple(
            Batch(text(batch["name"]), _shape(batch["shape"]), text(batch["dtype"]), tuple(map(text, batch["hashes"])))
            for batch in line.get("batch", ())
        ),
        tuple(
            Draw(
                text(batch["operator"]),
                text(batch["module"]),
                text(batch["phase"]),
                _shape(batch["shape"]),
                text(batch["hash"]),
                _count(batch["kept"]),
            )
            for batch in line.get("draws", ())
        ),
        {int(row): text(value) for row, value in line.get("hashes", {}).items()},
        {text(name): float(value) for name, value in line.get("numbers", {}).items()},
        {
            text(name): [{text(key): plain(value) for key, value in group.items()} for group in groups]
            for name, groups in line.get("optimizers", {}).items()
        },
        tuple(map(_count, line.get("loss", ()))),
        tuple(map(text, line.get("coarse", ()))),
        bool(line.get("sharded", False)),
        _count(line.get("dropped", 0)),
        str(line.get("rows", "")),
        str(line.get("tensors", "")),
        {str(name): str(value) for name, value in line[names.FILES].items()} if sealed else None,
    )


def _load(folder: Path, name: str, checksums: dict[str, str] | None) -> tuple[dict[str, Array], dict[str, str]]:
    path = inside(folder, name)
    return load(path, _ROWS_FILE, None if checksums is None else _noted(folder, name, checksums))


def _noted(folder: Path, name: str, checksums: dict[str, str]) -> str:
    if name not in checksums:
        raise damaged(folder / names.STEPS, say("it has no checksum for {name}", name=name))
    return checksums[name]


def _rows(folder: Path, name: str, checksums: dict[str, str] | None) -> RecordedRows:
    path = inside(folder, name)
    tensors, metadata = _load(folder, name, checksums)
    if "layout" not in metadata:
        raise damaged(path, say("it names no layout"))
    placed, described = _load(folder, f"layout-{metadata['layout']}.safetensors", checksums)
    try:
        keys = [
            Key(text(k[0]), text(k[1]), text(k[2]), text(k[3]), int(k[4]), text(k[5]), bool(k[6]))
            for k in values(described["keys"])
        ]
        shapes = [_shape(shape) for shape in values(metadata["shapes"])]
        arguments = list(plain(values(metadata["arguments"])))
        count = len(placed[names.KEY])
        if count > names.LARGEST:
            raise ValueError(f"{count} rows")
        sketch, sums = tensors[names.SKETCH].astype(np.float64), tensors[names.SUM].astype(np.float64)
        if sketch.shape != (count, names.WIDTH) or sums.shape != (count,):
            raise ValueError(f"{count} rows and a sketch of {sketch.shape}")
        inputs: list[list[int]] = [[] for _ in range(count)]
        for used, by in zip(placed[names.INPUTS].tolist(), placed[names.INPUTS_OF].tolist(), strict=True):
            if not 0 <= used < by < count:
                raise ValueError(f"row {by} uses row {used}")
            if len(inputs[by]) == names.INPUTS_MOST:
                raise ValueError(f"row {by} uses more than {names.INPUTS_MOST}")
            inputs[by].append(used)
        outputs: dict[str, list[int]] = {}
        for path_of, row in values(described.get(names.OUTPUTS, "[]")):
            if not 0 <= _count(row) < count:
                raise ValueError(f"a module gives row {row}")
            outputs.setdefault(text(path_of), []).append(row)
        of_rows = [keys[place] for place in _places(placed[names.KEY], len(keys))]
        _subtract(of_rows, inputs, sketch, sums)
        return RecordedRows(
            of_rows,
            [shapes[place] for place in _places(tensors[names.SHAPE], len(shapes))],
            [arguments[place] for place in _places(tensors[names.ARGUMENTS], len(arguments))],
            [tuple(makers) for makers in inputs],
            sketch,
            sums,
            outputs,
        )
    except _WRONG as error:
        raise damaged(path, text(repr(error))) from None


def _subtract(keys: list[Key], inputs: list[list[int]], sketch: Array, sums: Array) -> None:
    """Make of parameters after a step what the step added to them; what has no parameter before it is unknown."""
    for row, key in enumerate(keys):
        if key.phase == names.UPDATE:
            before = next((used for used in inputs[row] if keys[used].phase == names.PARAMETER), None)
            sketch[row] -= np.nan if before is None else sketch[before]
            sums[row] -= np.nan if before is None else sums[before]


def _places(array: Array, count: int) -> Iterator[int]:
    """Yield places in a list of `count`, none of them outside."""
    if array.ndim != 1 or (len(array) and not 0 <= int(array.min()) <= int(array.max()) < count):
        raise ValueError("a place is outside of its list")
    yield from array.tolist()
