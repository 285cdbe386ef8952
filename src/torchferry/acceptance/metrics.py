"""One metric of one log held against a bound: in any kind of log, as percent or as a share.

What `torchferry compare curves` reads is read by the same readers. Besides, text and Markdown tables are read, with the
metric in the head or in the first column, and the sign `%` behind a value is heeded. A figure that may be a percentage
or a share, with different verdicts, is an error: one of the two readings would be a silent mistake.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.numerics.curves.reading import FORMATS, Wanted, form_of
from torchferry.numerics.curves.reading import read as read_curves
from torchferry.numerics.curves.records import RANK_HEAD, beginning, lines, plain, samples_of

AT_LEAST, AT_MOST, ABOUT = ">=", "<=", "±"

_NUMBER = r"[+-]?(?:\d{1,30}(?:,\d{3})*(?:\.\d{0,40})?(?:[eE][+-]?\d{1,4})?|\.\d{1,40}|nan|inf(?:inity)?)"
_VALUE = re.compile(rf"(?P<value>{_NUMBER})\s?(?P<percent>%)?(?![\w.]|/\d)", re.IGNORECASE)
_NO_BAR = r"(?!\d|\s?%\|[^|]{0,200}(?:\[|\|\s{0,4}\d{1,9}/\d))"
"""The percentage of a progress bar, `100%|####| 4/4`, is no value."""

_RULE = re.compile(r"[\s|:+=-]{3,}\Z")
_WHOLE_ROWS = frozenset({"all", "mean", "average", "avg", "overall", "total", "summary"})
"""How the row of a table is called that represents all the others."""

_RATIOS = re.compile(
    r"(?:m|f\d?w)?iou|[am]?acc(?:uracy)?|top ?[15]|acc@?\d|prec(?:ision)?@?\d?|recall|m?ap(?:@.*|\d*)(?: ?\d\d)*|"
    r"f1|dice|auc|auroc|[wc]er|exact match|hit ?rate|pq|jaccard|bbox m?ap.*|segm m?ap.*|r@\d+|ndcg.*",
    re.IGNORECASE,
)
"""Metrics that are shares of a whole: these alone are read as percent or as a share. A loss is neither."""

_SECONDS = frozenset({"s", "sec", "second"})

_BEST, _OTHER = "best", "other"
_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "eval", "evaluation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_KINDS = {
    **_SPLITS,
    **dict.fromkeys(("best", "lowest", "highest", "smallest", "largest", "min", "max", "minimum", "maximum"), _BEST),
    **dict.fromkeys(
        ("baseline", "reference", "ref", "target", "expected", "goal", "wanted", "required", "paper", "published",
         "previous", "original", "threshold", "cuda"),
        _OTHER,
    ),
}  # fmt: skip
"""What a word before a metric's name says of the value: `baseline mIoU: 85.1` is no figure of the run."""

_WORD_BEFORE = re.compile(r"(?<![\w.-])([A-Za-z]{2,12})\s{1,3}['\"]?\Z")

_MOST_NAMES = 5

_STEEPEST = 50
"""By how many times a percentage below 1 may grow or shrink from one value to the next; a share that the log then has
as a percentage grows a hundredfold."""


class LoggedValue(NamedTuple):
    """One value of a log: the number as it is there, and whether `%` follows it."""

    number: float
    percent: bool = False


class MetricBound(NamedTuple):
    """What a metric is held against.

    Attributes:
        direction: `>=`, `<=` or `±`.
        value: In `unit`.
        tolerance: How much worse it may be (`±`: how far away), in `unit`.
        unit: `%`, `share`, or empty: found out by the name and the size of the value.
        log_unit: That of the log's values, or empty: found out.
        of: `last` or `best` of the log's values.
    """

    direction: str
    value: float
    tolerance: float = 0.0
    unit: str = ""
    log_unit: str = ""
    of: str = "last"

    @property
    def limit(self) -> float:
        """The least or the largest value that is accepted; of `±`, the middle."""
        if self.direction == AT_LEAST:
            return self.value - self.tolerance
        return self.value + self.tolerance if self.direction == AT_MOST else self.value

    def keeps(self, value: float) -> bool:
        """Whether a value in the bound's unit is accepted; NaN never is."""
        if self.direction == AT_LEAST:
            return value >= self.limit
        if self.direction == AT_MOST:
            return value <= self.limit
        return abs(value - self.value) <= self.tolerance

    def text(self, unit: str) -> Message:
        """Return the bound as people read it."""
        sign = " %" if unit == "%" else ""
        if self.direction == ABOUT:
            return say("{value} ± {tolerance}", value=f"{self.value:g}", tolerance=f"{self.tolerance:g}{sign}")
        if self.tolerance:
            return say(
                "{direction} {limit} ({value}, tolerance {tolerance})",
                direction=self.direction,
                limit=f"{self.limit:.10g}{sign}",
                value=f"{self.value:g}",
                tolerance=f"{self.tolerance:g}",
            )
        return say("{direction} {limit}", direction=self.direction, limit=f"{self.limit:g}{sign}")


class MetricVerdict(NamedTuple):
    """How a metric stands.

    Attributes:
        met: Whether the bound is kept.
        value: The value that counted, in the bound's unit; None where the log has none.
        unit: `%`, `share` or empty.
        values: How many values the log has.
        reason: Why it is not met, or how the value was read; None where there is nothing to say.
    """

    met: bool
    value: float | None
    unit: str
    values: int
    reason: Message | None = None


def judge(
    path: Path, metric: str, bound: MetricBound, pattern: str = "", form: str = "auto", usual_unit: str = ""
) -> MetricVerdict:
    """Hold a metric of a log against a bound.

    Args:
        path: The log.
        metric: Its name, as `find_values` takes it.
        bound: What it is held against.
        pattern: An expression with a group `value` that finds it instead.
        form: One of `FORMATS` of the curves.
        usual_unit: The unit of the same program's other logs; it counts where the bound states none.

    Raises:
        UsageError: the log has it as a share and as a percentage, or two readings have different verdicts.
        TorchferryError: the log cannot be read.
    """
    values = find_values(path, metric, pattern, form)
    if not values:
        near = nearest(metric, names_of(path, form))
        reason = (
            say(
                "`{metric}` never appears in {path}; the nearest names there: {names}",
                metric=metric,
                path=path.name,
                names=", ".join(near),
            )
            if near
            else say(
                "`{metric}` never appears in {path}, and neither does any other name with a value",
                metric=metric,
                path=path.name,
            )
        )
        return MetricVerdict(False, None, _unit_of(metric, bound), 0, reason)
    unit = _unit_of(metric, bound)
    shared = unit in ("%", "share")
    if shared and not bound.log_unit:
        _require_one_unit(values, metric, path)
        bound = bound._replace(log_unit=usual_unit)
    readings = _readings(values, unit, bound) if shared else {"": values}
    verdicts = {name: _of(reading, bound) for name, reading in readings.items()}
    outcomes = {bound.keeps(value) for value in verdicts.values()}
    if len(outcomes) > 1:
        raise UsageError(
            say(
                "`{metric}` in {path} may be a percentage or a share: {value} is {met} as the one and {not_met} as the "
                "other",
                metric=metric,
                path=path.name,
                value=f"{_of(values, bound):g}",
                met=say("accepted"),
                not_met=say("refused"),
            ),
            say("say which the log has: --log-unit % or --log-unit share (`log-unit` in the accept file)"),
        )
    name, value = next(iter(verdicts.items()))
    if math.isnan(value):
        return MetricVerdict(False, value, unit, len(values), say("the value is NaN"))
    if math.isinf(value):
        return MetricVerdict(False, value, unit, len(values), say("the value is infinite"))
    if bound.direction == AT_LEAST and unit and is_ratio(metric) and value > (100.0 if unit == "%" else 1.0):
        return MetricVerdict(
            False,
            value,
            unit,
            len(values),
            say(
                "the value is above 100 %, so it is probably another figure: name the metric in full, or use "
                "--pattern (`pattern` in the accept file)"
            ),
        )
    converted = shared and name != unit
    note = say("read as a share of 1") if name == "share" else say("read as a percentage")
    return MetricVerdict(bound.keeps(value), value, unit, len(values), note if converted else None)


def _unit_of(metric: str, bound: MetricBound) -> str:
    """Return what the bound is: a percentage, a share, or a plain number."""
    if bound.unit:
        return bound.unit
    if bound.log_unit:
        return "%" if abs(bound.value) > 1 else "share"
    if not is_ratio(metric):
        return ""
    return "%" if abs(bound.value) > 1 else "share"


def is_ratio(metric: str) -> bool:
    """Return whether a metric is a share of a whole, by its name."""
    last = plain(metric)
    return any(_RATIOS.fullmatch(text) for text in (last, last.rsplit(" ", 1)[-1]))


def _require_one_unit(values: Sequence[LoggedValue], metric: str, path: Path) -> None:
    """Refuse a log that has a metric both ways, as 0.76 and 76.1.

    Raises:
        UsageError: it has.
    """
    told = [(number, value) for number, value in enumerate(values, 1) if math.isfinite(value.number) and value.number]
    for one, other in pairwise(told):
        (first, share), (second, percentage) = sorted((one, other), key=lambda each: not _may_be_share(each[1]))
        if not _may_be_share(share) or _may_be_share(percentage):
            continue
        if percentage.percent or abs(percentage.number) > _STEEPEST * abs(share.number):
            raise UsageError(
                say(
                    "`{metric}` in {path} is a share and a percentage: value {first} of {count} is {share}, value "
                    "{second} is {percentage}",
                    metric=metric,
                    path=path.name,
                    first=first,
                    second=second,
                    count=len(values),
                    share=f"{share.number:g}",
                    percentage=f"{percentage.number:g}" + (" %" if percentage.percent else ""),
                ),
                say(
                    "find the values that count with --pattern (`pattern` in the accept file), or say what all of them "
                    "are with --log-unit % or --log-unit share (`log-unit`)"
                ),
            )


def _may_be_share(value: LoggedValue) -> bool:
    return not value.percent and abs(value.number) <= 1


def _readings(values: Sequence[LoggedValue], unit: str, bound: MetricBound) -> dict[str, list[LoggedValue]]:
    """Return the values in the bound's unit, by what those of the log may be; the likelier first."""
    finite = [value for value in values if math.isfinite(value.number)]
    if bound.log_unit:
        possible = [bound.log_unit]
    elif any(value.percent for value in finite):
        possible = ["%"]
    elif any(value.number > 1 for value in finite):
        possible = ["%"]
        if any(0 < value.number <= 1 for value in finite) and bound.of == "last" and values[-1].number <= 1:
            possible.append("share")  # some are above 1 and the one that counts is not: two units may be mixed
    elif unit == "share":
        possible = ["share"]
    else:
        possible = ["share", "%"]
    factors = {("%", "share"): 0.01, ("share", "%"): 100.0}
    return {
        name: [value._replace(number=_times(value.number, factors.get((name, unit), 1.0))) for value in values]
        for name in possible
    }


def _times(number: float, factor: float) -> float:
    """Return a product as people compute it: 0.8512 as a percentage is 85.12, not 85.11999."""
    return float(f"{number * factor:.12g}")


def _of(values: Sequence[LoggedValue], bound: MetricBound) -> float:
    """Return the value that counts."""
    if bound.of == "last":
        return values[-1].number
    numbers = [value.number for value in values if not math.isnan(value.number)]
    if not numbers:
        return math.nan
    if bound.direction == ABOUT:
        return min(numbers, key=lambda number: abs(number - bound.value))
    return max(numbers) if bound.direction == AT_LEAST else min(numbers)


# --- finding values ---


def find_values(path: Path, metric: str, pattern: str = "", form: str = "auto") -> list[LoggedValue]:
    """Return the values of a metric in the order of the log.

    Args:
        path: The log.
        metric: Its name; `val_mIoU`, `val/mIoU` and `val mIoU` are one.
        pattern: An expression with a group `value` that finds it instead.
        form: One of `FORMATS` of the curves.

    Raises:
        UsageError: a table has it for several rows, and none for all; it is there for training and for validation.
        TorchferryError: the log cannot be read.
    """
    if pattern:
        return list(_by_pattern(path, re.compile(pattern)))
    if path.is_file() and (form_of(path) if form == "auto" else form) == "text":
        return _meant(path, metric, _in_text(path, plain(metric)))
    log = read_curves(path, Wanted((plain(metric),), form=form))
    ranks = log.points.get(plain(metric), {})
    if not ranks:
        return []
    rank = min(ranks, key=lambda each: -1 if each is None else each)
    return [LoggedValue(value) for value in ranks[rank].values]


def _by_pattern(path: Path, pattern: re.Pattern[str]) -> Iterator[LoggedValue]:
    for line in lines(path):
        for match in pattern.finditer(line.text):
            number = _value_at(match["value"] or "")
            if number is not None:
                behind = line.text[match.end("value") : match.end("value") + 2].strip()
                yield number._replace(percent=number.percent or behind.startswith("%"))


def _value_at(text: str) -> LoggedValue | None:
    match = _VALUE.match(text.strip())
    if match is None:
        return None
    return LoggedValue(float(match["value"].replace(",", "")), match["percent"] is not None)


def _named(metric: str) -> re.Pattern[str]:
    """Return the expression for a metric with its value behind it on one line."""
    name = r"[\s._/\-]{0,3}".join(map(re.escape, metric.split()))
    return re.compile(
        rf"(?<![\w./@-])['\"]?{name}(?:\([\w ]{{1,20}}\))?['\"]?(?:\s{{0,16}}(?:[:=|：＝]|->)|\s{{1,16}}is\s|(?=\s))"
        rf"\s{{0,24}}['\"]?(?:tensor\(\[?)?(?P<value>{_NUMBER}){_NO_BAR}\s?(?P<percent>%)?(?![\w.]|[:/]\d|-\d)",
        re.IGNORECASE,
    )


def _rate(metric: str) -> re.Pattern[str] | None:
    """Return the expression for a rate with its value in front, as in `512.3 images/s`; None for another metric."""
    name, _, second = metric.rpartition(" ")
    if not name or second not in _SECONDS:
        return None
    words = r"[\s._\-]{0,3}".join(map(re.escape, name.split()))
    return re.compile(
        rf"(?<![\w.,])(?P<value>{_NUMBER})(?P<percent>)\s{{0,4}}{words}\s?(?:/|per)\s?{second}(?!\w)", re.I
    )


def _meant(path: Path, metric: str, found: Sequence[tuple[str, LoggedValue]]) -> list[LoggedValue]:
    """Return the values that a name means: those under the bare name, else those of the one split that there is."""
    kinds = {kind for kind, _ in found}
    splits = sorted(kinds & set(_SPLITS.values()))
    if "" not in kinds and len(splits) > 1:
        raise UsageError(
            say(
                "`{metric}` in {path} may mean any of: {names}",
                metric=metric,
                path=path.name,
                names=", ".join(f"{split} {metric}" for split in splits),
            ),
            say("name one of them in full"),
        )
    chosen = "" if "" in kinds else splits[0] if splits else _BEST
    return [value for kind, value in found if kind == chosen]


def _kind(text: str, start: int) -> str:
    """Return what the word before a name makes of it: a split, `_BEST`, `_OTHER`, or nothing."""
    word = _WORD_BEFORE.search(text, max(0, start - 24), start)
    return "" if word is None else _KINDS.get(word[1].lower(), "")


def _in_text(path: Path, metric: str) -> list[tuple[str, LoggedValue]]:
    """Return the values that lines of text and tables have, each with its `_kind`; of several ranks, the lowest's."""
    by_rank: dict[int, _TextValues] = {}
    named, rate = _named(metric), _rate(metric)
    word = metric.split(" ", 1)[0] if rate is not None else metric.rsplit(" ", 1)[-1]
    for line in lines(path):
        head = RANK_HEAD.match(line.text)
        rank = -1 if head is None else int(head[1])
        if rank not in by_rank:
            by_rank[rank] = _TextValues(path, metric, word, named, rate)
        by_rank[rank].add(line.text if head is None else line.text[head.end() :], line.cut)
    found = {rank: values.all() for rank, values in by_rank.items()}
    return next((found[rank] for rank in sorted(found) if found[rank]), [])


class _TextValues:
    """The values of one rank, in the order of its lines."""

    def __init__(
        self, path: Path, metric: str, word: str, named: re.Pattern[str], rate: re.Pattern[str] | None
    ) -> None:
        self._path, self._metric, self._word, self._named, self._rate = path, metric, word, named, rate
        self._table: _Table | None = None
        self._found: list[tuple[str, LoggedValue]] = []

    def all(self) -> list[tuple[str, LoggedValue]]:
        """Return all of them, with those of a table that the log ends in.

        Raises:
            UsageError: a table has the metric for several rows, and none for all.
        """
        self._end_table()
        return self._found

    def add(self, text: str, cut: bool) -> None:
        """Read a line; `cut` where the log stops in it."""
        if self._table is not None:
            value = self._table.row(text)
            if value is not None:
                self._table.rows.append(value)
                return
            if not self._table.rows and _RULE.match(text):
                return
            self._end_table()
        if self._word not in text.lower():
            return
        record = _record(text)
        if record is not None:
            samples = (sample for sample in samples_of(record) if plain(sample.metric) == self._metric)
            self._found += [("", LoggedValue(sample.value)) for sample in samples]
            return
        matches = [match for match in self._named.finditer(text) if not cut or match.end() < len(text)]
        if self._rate is not None and not matches:
            matches = list(self._rate.finditer(text))
        if not matches:
            self._table = _Table.begun_by(text, self._metric)
            return
        first: dict[str, re.Match[str]] = {}  # an average behind the value is no new value
        for match in matches:
            first.setdefault(_kind(text, match.start()), match)
        for kind, match in first.items():
            self._found.append((kind, LoggedValue(float(match["value"].replace(",", "")), bool(match["percent"]))))

    def _end_table(self) -> None:
        if self._table is not None:
            self._found += [("", each) for each in self._table.values(self._metric, self._path)]
            self._table = None


def _record(text: str) -> dict[str, Any] | None:
    """Return the JSON object of a line; None where it has none."""
    begin = text.find('{"')
    if begin < 0:
        return None
    try:
        record, _ = json.JSONDecoder().raw_decode(text[begin:])
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


class _Table:
    """A table of a text log: one head with the metric in a column, then rows with as many cells."""

    def __init__(self, column: int, width: int, bars: bool) -> None:
        self._column, self._width, self._bars = column, width, bars
        self.rows: list[tuple[str, LoggedValue]] = []

    @classmethod
    def begun_by(cls, text: str, metric: str) -> _Table | None:
        """Return the table whose head a line is; None where it is none."""
        bars = text.count("|") >= 2 and ":" not in text.split("|", 1)[0]
        cells = _cells(text, bars)
        for index, cell in enumerate(cells):
            if plain(cell.rstrip(":").rstrip("%")) == metric:
                last = next((at for at, each in enumerate(cells) if each.endswith(":") and not bars), len(cells) - 1)
                width = last + 1  # behind a head that ends with a colon goes on a progress bar
                return cls(index, width, bars) if index < width and width > 1 else None
        return None

    def row(self, text: str) -> tuple[str, LoggedValue] | None:
        """Return the name of a row and its value; None for a line that is no row."""
        cells = _cells(text, self._bars)
        if len(cells) != self._width:
            return None
        value = _value_at(cells[self._column])
        return None if value is None else (cells[0], value)

    def values(self, metric: str, path: Path) -> Iterator[LoggedValue]:
        """Yield the values: of the row for all, else of each row where these are numbered.

        Raises:
            UsageError: the rows are named, and none represents all.
        """
        for name, value in self.rows:
            if plain(name.strip("*")) in _WHOLE_ROWS:
                yield value
                return
        if len(self.rows) > 1 and self._column and any(_value_at(name) is None for name, _ in self.rows):
            raise UsageError(
                say(
                    "{path} has `{metric}` in the rows {rows}, but no row for all of them, such as `mean`",
                    path=path.name,
                    metric=metric,
                    rows=", ".join(name for name, _ in self.rows[:_MOST_NAMES]),
                ),
                say("name the row with a pattern: --pattern 'ROW .*?(?P<value>[0-9.]+)'"),
            )
        yield from (value for _, value in self.rows)


def _cells(text: str, bars: bool) -> list[str]:
    if bars:
        return [cell.strip() for cell in text.strip().strip("|").split("|")]
    return text.split()


def names_of(path: Path, form: str = "auto") -> list[str]:
    """Return the names of all that has a value in a log; none where it cannot be read."""
    names: dict[str, None] = {}
    try:
        log = read_curves(path, Wanted(every=True, form=form))
        names.update((points.metric, None) for ranks in log.points.values() for points in ranks.values())
        if b"\0" not in beginning(path, 4096):
            for line in lines(path):
                if "|" in line.text or len(line.text.split()) > 3:
                    names.update(_headings(line.text))
                if len(names) > 4096:
                    break
    except TorchferryError:
        pass
    return list(names)


def _headings(text: str) -> Iterator[tuple[str, None]]:
    """Yield the cells of a line that looks like the head of a table: short words, no numbers."""
    cells = _cells(text, text.count("|") >= 2)
    if 1 < len(cells) <= 30 and all(len(cell) <= 24 for cell in cells[:6]) and not any(map(_value_at, cells)):
        yield from ((cell.rstrip(":"), None) for cell in cells if cell and len(cell) <= 24)


def nearest(metric: str, names: Sequence[str]) -> list[str]:
    """Return the names that are most alike: those that contain it first, else by spelling, else the first ones."""
    wanted = plain(metric)
    by_plain = {plain(name): name for name in names}
    words = set(wanted.split())
    holding = [name for key, name in by_plain.items() if wanted in key or words & set(key.split())]
    close = [by_plain[key] for key in difflib.get_close_matches(wanted, by_plain, n=_MOST_NAMES, cutoff=0.6)]
    chosen = list(dict.fromkeys((*holding, *close)))[:_MOST_NAMES]
    return chosen or [name for name in names if name[:1].isalpha()][:_MOST_NAMES]


__all__ = [
    "ABOUT",
    "AT_LEAST",
    "AT_MOST",
    "FORMATS",
    "LoggedValue",
    "MetricBound",
    "MetricVerdict",
    "find_values",
    "is_ratio",
    "judge",
    "names_of",
    "nearest",
]
