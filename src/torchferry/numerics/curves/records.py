"""What a log says, record by record: lines of text, a JSON document, a table, and the values in each."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import Work, reading

# What a log says at one place: a value of a metric, and what is known of when it was.


class Sample(NamedTuple):
    """One value of one metric.

    Attributes:
        metric: As the log writes it.
        value: May be NaN or infinite.
        epoch: The epoch as the log counts it; may be a fraction; None where the log does not say.
        step: The step, within the epoch or over all; None where the log does not say.
        rank: The process that wrote it; None where the log does not say.
        bar: Whether it was drawn by a progress bar, whose steps begin anew with each bar.
    """

    metric: str
    value: float
    epoch: float | None = None
    step: float | None = None
    rank: int | None = None
    bar: bool = False


class Trouble(NamedTuple):
    """Something that was left out of a log while it was read."""

    what: Message


_SEPARATORS = re.compile(r"[\s._/\-]+")
_BRACKETS = str.maketrans("", "", "()[]{}\"'")


@lru_cache(maxsize=4096)
def plain(metric: str) -> str:
    """Return the name by which metrics are told apart: `train/Loss`, `train_loss` and `train.loss` are one."""
    return _SEPARATORS.sub(" ", metric.translate(_BRACKETS)).strip().lower()


# Values in a record: one JSON object of a log, one row of a table, one entry of a trainer's history.

_STEPS = ("global step", "trainer global step", "step", "steps", "iteration", "iter", "num updates", "update")
_EPOCHS = ("epoch", "train epoch", "current epoch")
_RANKS = ("rank", "local rank", "global rank")
_MODES = ("mode", "split", "phase", "stage", "prefix")
_APART = ("val", "valid", "validation", "eval", "evaluation", "test")
_CLOCKS = frozenset({"timestamp", "time", "wall time", "elapsedtime", "datetime", "runtime"})
_PLACES = frozenset((*_STEPS, *_EPOCHS, *_RANKS)) | _CLOCKS
_DEEPEST = 8


def samples_of(record: Mapping[str, Any]) -> Iterator[Sample]:
    """Yield the numbers of a record under their names, `a.b` for what is nested, with the step that it states."""
    flat = dict(_flat(record))
    by_name = {plain(name): value for name, value in flat.items()}
    epoch = _number(_first(by_name, _EPOCHS))
    place = _first(by_name, _STEPS)
    if isinstance(place, (list, tuple)):  # the DLLogger family writes [epoch, step]
        numbers = [_number(part) for part in place]
        if len(numbers) >= 2:
            epoch, step = numbers[0], numbers[-1]
        else:
            epoch, step = (numbers[0] if numbers else epoch), None
    else:
        step = _number(place)
    rank = _number(_first(by_name, _RANKS))
    mode = str(_first(by_name, _MODES) or "").lower()
    for name, value in flat.items():
        if plain(name) in _PLACES or isinstance(value, (list, tuple)):
            continue
        number = _number(value)
        if number is None:
            continue
        if mode in _APART and mode not in plain(name):
            name = f"{mode} {name}"
        yield Sample(name, number, epoch, step, int(rank) if rank is not None and rank >= 0 else None)


def _flat(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            if depth < _DEEPEST:
                # DLLogger's own envelope: its names are those inside
                inner = "" if depth == 0 and name == "data" and "step" in record else f"{prefix}{name}."
                yield from _flat(value, inner, depth + 1)
        else:
            yield f"{prefix}{name}", value


def _first(values: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((values[name] for name in names if values.get(name) not in (None, "")), None)


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and value and (value[0] in "+-.0123456789" or value[:3].lower() in ("nan", "inf")):
        try:
            return float(value)
        except ValueError:
            return None
    return None


# The lines of a text log, one at a time, whatever wrote it: progress bars, colours, several encodings, compressed.

_CHUNK = 1 << 20
_LONGEST = 1 << 18
"""Characters of one line that are looked at; no training loop prints more, and a dump of a tensor may."""

_ENDS = re.compile(r"[\r\n]+")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[A-Za-z]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-_])|\x00")
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class Line(NamedTuple):
    """One line without its end; `cut` where the file stops in it."""

    text: str
    cut: bool = False


def lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file; a carriage return ends one too, so that each state of a progress bar is a line.

    Colours are removed, bytes that are no UTF-8 are replaced, and of a line of more than 256 K characters the rest is
    skipped. The file is never held as a whole. Where ranks write in each other's lines, each gets its own again.

    Raises:
        TorchferryError: the file cannot be read.
    """
    try:
        with reading(path) as work, _opened(path) as file:
            yield from _of_ranks(_split(file, work))
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from None


RANK_HEAD = re.compile(r"\[(?:rank|default)(\d{1,6})\]:")
"""What torchrun puts before each line of a rank; of `[default0]:` the word is the role."""


def _of_ranks(found: Iterable[Line]) -> Iterator[Line]:
    """Yield lines with the head of one rank each.

    A rank that writes while another one is writing a line continues that line: `[rank0]: loss [rank1]:
    loss 0.6`, and then `0.5` without a head. What one rank has begun is put together with the line behind it that has
    no head. Where several have begun, nobody can tell whose that is, and all is as it is.
    """
    begun = ""
    for line in found:
        heads = [head.start() for head in RANK_HEAD.finditer(line.text)] if "]:" in line.text else []
        first = heads[0] if heads else len(line.text)
        if begun:
            yield Line(begun + line.text[:first], line.cut and not heads)
            begun = ""
        elif first or not heads:
            yield Line(line.text[:first], line.cut and not heads)
        if not heads:
            continue
        pieces = [line.text[start:end] for start, end in zip(heads, [*heads[1:], len(line.text)], strict=True)]
        if len(pieces) == 2:
            begun = pieces.pop(0)
        yield from (Line(piece, line.cut and piece is pieces[-1]) for piece in pieces)
    if begun:
        yield Line(begun)


def beginning(path: Path, size: int = 1 << 16) -> bytes:
    """Return the first bytes of a file, of what is compressed in it where it is compressed.

    Raises:
        TorchferryError: the file cannot be read.
    """
    try:
        with _opened(path) as file:
            return file.read(size)
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> TorchferryError:
    """Build the error for a file that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return TorchferryError(say("cannot read {path}: {error}", path=path, error=reason))


def decoded(data: bytes) -> str:
    """Return the text of `data` as `lines` would decode it."""
    return data.decode(_encoding(data), "replace")


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def _encoding(data: bytes) -> str:
    return next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")


def _split(file: IO[bytes], work: Work) -> Iterator[Line]:
    first = file.read(_CHUNK)
    decoder = codecs.getincrementaldecoder(_encoding(first))("replace")
    rest = ""
    skipping = False
    chunk = first
    while chunk:
        work.add(len(chunk))
        text = decoder.decode(chunk)
        pieces = _ENDS.split(rest + text)
        rest = pieces.pop()
        for piece in pieces:
            if not skipping and piece:
                yield Line(_clean(piece))
            skipping = False
        if len(rest) > _LONGEST:
            if not skipping:
                yield Line(_clean(rest[:_LONGEST]), cut=True)
            rest, skipping = "", True
        chunk = file.read(_CHUNK)
    rest += decoder.decode(b"", final=True)
    if rest and not skipping:
        yield Line(_clean(rest), cut=True)


def _clean(text: str) -> str:
    text = text[:_LONGEST]
    return _ESCAPE.sub("", text) if "\x1b" in text or "\x00" in text else text


# Values in one JSON document: a trainer's `trainer_state.json`, a list of records, or columns of equal length.

_LARGEST = 1 << 29
"""Bytes of a document that is read as a whole; a log of JSON lines has no limit."""


class DocumentReader:
    """Reads one JSON document."""

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield the numbers of the document's records, in their order.

        Raises:
            TorchferryError: the file cannot be read, is too large, is no JSON, or holds no records.
        """
        data = beginning(path, _LARGEST + 1)
        if len(data) > _LARGEST:
            raise TorchferryError(
                say("{path} is one JSON document of more than {limit} MiB", path=path, limit=_LARGEST >> 20),
                say("write it as JSON lines, one record per line"),
            )
        try:
            document = parsed_json(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError) as error:
            raise TorchferryError(
                say("{path} starts like a JSON document but is not valid: {error}", path=path, error=error),
                say("it may be incomplete because writing or copying it was interrupted"),
            ) from None
        records = _records(document)
        if records is None:
            raise TorchferryError(
                say("{path} contains no training records", path=path),
                say("it must have a `log_history`, be a list of objects, or have named lists of equal length"),
            )
        for record in records:
            yield from samples_of(record)


def _records(document: Any) -> list[dict[str, Any]] | None:
    if isinstance(document, dict):
        history = document.get("log_history")
        if isinstance(history, list):
            return [record for record in history if isinstance(record, dict)]
        columns = {name: column for name, column in document.items() if isinstance(column, list) and column}
        if columns and len({len(column) for column in columns.values()}) == 1:
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return None
    if isinstance(document, list) and document and all(isinstance(record, dict) for record in document):
        return document
    return None


# Values in a table with a header: CSV as Lightning, Ultralytics, TensorBoard and spreadsheets write it.

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
