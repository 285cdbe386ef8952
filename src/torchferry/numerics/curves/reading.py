"""Which reader a log needs, and what all of its values come to.

TensorBoard's event files are read without TensorBoard. Such a file is a row of records: length (uint64), its checksum,
the bytes of an Event, their checksum. Of an Event only the step and the scalars of its summary are read; field numbers
are those of tensorflow's event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import math
import re
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import reading
from torchferry.numerics.curves.columns import ColumnReader, numbers_of
from torchferry.numerics.curves.records import (
    DocumentReader,
    Sample,
    TableReader,
    Trouble,
    beginning,
    decoded,
    delimiter_of,
    plain,
    unreadable,
)
from torchferry.numerics.curves.text_log import PatternReader, TextLogReader

FORMATS = ("auto", "text", "csv", "json", "tensorboard")
"""What a log can be said to be; `text` reads JSON lines too."""

_MOST_METRICS = 2048
_MOST_TROUBLES = 5
_EVENTS = "*tfevents*"
_KNOWN_FILES = ("results.csv", "metrics.csv", "trainer_state.json")


class Series(Protocol):
    """Something that yields what a file says."""

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield the samples of a file in its order."""
        ...


class Wanted(NamedTuple):
    """What is to be read of a log.

    Attributes:
        metrics: Names, as `plain` has them; empty: all that are found.
        patterns: The user's own expressions; with them, lines are read by nothing else.
        pattern_metric: What the values of expressions without a group `metric` are called.
        form: One of `FORMATS`.
        every: Whether all metrics are wanted, and not just a loss.
    """

    metrics: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    pattern_metric: str = "loss"
    form: str = "auto"
    every: bool = False


@dataclass
class Points:
    """The values of one metric of one rank, in the order of the log; NaN represents an epoch or step not known."""

    metric: str
    epochs: array[float] = field(default_factory=lambda: array("d"))
    steps: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    bars: bool = False

    def add(self, sample: Sample) -> None:
        """Add one value."""
        self.epochs.append(float("nan") if sample.epoch is None else sample.epoch)
        self.steps.append(float("nan") if sample.step is None else sample.step)
        self.values.append(sample.value)
        self.bars = self.bars or sample.bar


@dataclass
class TrainingLog:
    """Everything that was read of one log: points by metric (as `plain` has it) and rank, and what was left out."""

    path: Path
    points: dict[str, dict[int | None, Points]] = field(default_factory=dict)
    troubles: list[Message] = field(default_factory=list)
    more_troubles: int = 0


def read(path: Path, wanted: Wanted) -> TrainingLog:
    """Read a log, or a folder with one.

    Raises:
        TorchferryError: the file cannot be read, or is no log of the form that it has.
        UsageError: a folder holds no log that is known by its name, or several.
    """
    log = TrainingLog(path)
    for file in _files(path):
        troubles, more = list(log.troubles), log.more_troubles
        for reader in _readers(file, wanted):
            log.troubles, log.more_troubles = list(troubles), more  # what a reader that found nothing said is of no use
            _gather(reader, file, wanted, log)
            if log.points:
                break
    if wanted.metrics and not log.points and not wanted.patterns:
        return read(path, wanted._replace(metrics=(), every=True))  # so that it can be said what is there
    return log


def _gather(reader: Series, file: Path, wanted: Wanted, log: TrainingLog) -> None:
    metrics = set(wanted.metrics)
    for item in reader.samples(file):
        if isinstance(item, Trouble):
            if len(log.troubles) < _MOST_TROUBLES:
                log.troubles.append(item.what)
            else:
                log.more_troubles += 1
            continue
        name = plain(item.metric)
        if metrics and name not in metrics:
            continue
        ranks = log.points.get(name)
        if ranks is None:
            if len(log.points) >= _MOST_METRICS:
                raise TorchferryError(
                    say_plural(
                        "{path} has more than {count} metric",
                        "{path} has more than {count} metrics",
                        path=file,
                        count=_MOST_METRICS,
                    ),
                    say("name the metrics with --metric"),
                )
            ranks = log.points[name] = {}
        points = ranks.get(item.rank)
        if points is None:
            points = ranks[item.rank] = Points(item.metric)
        points.add(item)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    events = sorted(path.glob(_EVENTS))
    if events:
        return events
    files = [path / name for name in _KNOWN_FILES if (path / name).is_file()]
    if len(files) == 1:
        return files
    if files:
        raise UsageError(
            say("{path} contains several logs: {names}", path=path, names=", ".join(file.name for file in files)),
            say("name the log itself"),
        )
    raise UsageError(
        say(
            "{path} is a folder without an event file and without {names}",
            path=path,
            names=", ".join(_KNOWN_FILES),
        ),
        say("name the log itself"),
    )


def _readers(file: Path, wanted: Wanted) -> list[Series]:
    """Return the readers to try, the likeliest first; the next one is asked where one finds nothing."""
    if wanted.patterns:
        return [PatternReader(wanted.patterns, wanted.pattern_metric)]
    form = wanted.form if wanted.form != "auto" else form_of(file)
    if form == "tensorboard":
        return [EventReader()]
    if form == "csv":
        return [TableReader()]
    if form == "json":
        return [DocumentReader()]
    if wanted.metrics:
        words = {name.rsplit(maxsplit=1)[-1] for name in wanted.metrics if name}
        # one word that all lines of interest have makes most lines of a large log cheap
        return [TextLogReader(words.pop() if len(words) == 1 else ""), ColumnReader()]
    if wanted.every:
        return [_BothReaders()]
    return [TextLogReader("loss"), ColumnReader(), TextLogReader()]


class _BothReaders:
    """Reads what is next to its name in a text log, and what is in columns."""

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield what both readers find.

        Raises:
            TorchferryError: the file cannot be read.
        """
        yield from TextLogReader().samples(path)
        yield from ColumnReader().samples(path)


def form_of(file: Path) -> str:
    """Return which of `FORMATS` a file has, by its beginning and its name."""
    head = beginning(file)
    if is_event_file(head):
        return "tensorboard"
    text = decoded(head).lstrip()
    first, _, rest = text.partition("\n")
    first, rest = first.strip(), rest.lstrip()
    if numbers_of(first) is not None:
        return "text"  # a table without a head
    if first.startswith(("{", "[")):
        return "json" if _is_document(first, rest, file) else "text"
    if file.suffix.lower() in (".csv", ".tsv") or _is_table(first, rest):
        return "csv"
    return "text"


def _is_document(first: str, rest: str, file: Path) -> bool:
    """Say whether a file that begins with a bracket is one JSON document; else it is JSON lines, or a text log."""
    if first in ("{", "[") or first.startswith(("[{", '{"log_history"')):
        return True
    try:
        record = parsed_json(first)
    except (ValueError, RecursionError):
        return file.suffix.lower() == ".json" and not rest
    if rest or not isinstance(record, dict):
        return isinstance(record, list)
    return any(isinstance(value, list) and value for value in record.values())


def _is_table(first: str, rest: str) -> bool:
    delimiter = delimiter_of(first)
    if not delimiter or ":" in first or "=" in first:
        return False
    rows = [row for row in rest.split("\n")[:3] if row.strip()]
    return bool(rows) and all(row.count(delimiter) == first.count(delimiter) for row in rows[:2])


_LARGEST = 1 << 28
"""Bytes of one record; a larger length means that the file is damaged there."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _DOUBLE = 1, 2
Field = tuple[int, int, "int | bytes"]


def is_event_file(head: bytes) -> bool:
    """Say whether a file begins as an event file: a short record whose Event has a time and `brain.Event`."""
    return len(head) > 24 and head[4:8] == b"\0\0\0\0" and b"brain.Event:" in head[:64]


class EventReader:
    """Reads one event file."""

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield the scalars of the file, in its order.

        Raises:
            TorchferryError: the file cannot be read.
        """
        try:
            with reading(path) as work, path.open("rb") as file:
                for record in _records(file):
                    work.reach(file.tell())
                    if record is None:
                        yield Trouble(
                            say("the event file ends in the middle of a record; the values before it were read")
                        )
                        return
                    yield from _scalars(record)
        except OSError as error:
            raise unreadable(path, error) from None
        except (ValueError, IndexError, struct.error):
            yield Trouble(say("the event file is damaged; the values after the damage were not read"))


def _records(file: IO[bytes]) -> Iterator[bytes | None]:
    while head := file.read(12):
        length = struct.unpack_from("<Q", head)[0] if len(head) == 12 else _LARGEST + 1
        if length > _LARGEST:
            yield None
            return
        body = file.read(length + 4)
        if len(body) < length + 4:
            yield None
            return
        yield body[:length]


def _scalars(event: bytes) -> Iterator[Sample]:
    step = 0.0
    summaries = []
    for number, _, value in _fields(event):
        if number == 2 and isinstance(value, int):
            step = float(value)
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, _, value in _fields(summary):
            if number == 1 and isinstance(value, bytes):
                yield from _value(value, step)


def _value(data: bytes, step: float) -> Iterator[Sample]:
    tag = ""
    scalar: float | None = None
    for number, kind, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif number == 2 and kind == _FIXED32 and isinstance(value, bytes):
            scalar = struct.unpack("<f", value)[0]
        elif number == 8 and isinstance(value, bytes):
            scalar = _tensor(value)
    if tag and scalar is not None:
        yield Sample(tag, scalar, None, step)


def _tensor(data: bytes) -> float | None:
    """Return the number of a tensor of one float or double; None for every other tensor."""
    dtype = 0
    content = b""
    for number, kind, value in _fields(data):
        if number == 1 and isinstance(value, int):
            dtype = value
        elif number == 2 and isinstance(value, bytes) and any(size != 1 for size in _sizes(value)):
            return None
        elif number in (4, 5, 6) and isinstance(value, bytes) and kind in (_BYTES, _FIXED32, _FIXED64):
            content = value
    if dtype == _FLOAT and len(content) == 4:
        return float(struct.unpack("<f", content)[0])
    if dtype == _DOUBLE and len(content) == 8:
        return float(struct.unpack("<d", content)[0])
    return None


def _sizes(shape: bytes) -> Iterator[int]:
    for number, _, value in _fields(shape):
        if number == 2 and isinstance(value, bytes):
            yield next((size for field, _, size in _fields(value) if field == 1 and isinstance(size, int)), 0)


def _fields(data: bytes) -> Iterator[Field]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, kind, value if value < 1 << 63 else value - (1 << 64)
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(kind)
        if at + size > len(data):
            raise ValueError(size)
        yield number, kind, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(math.inf)
