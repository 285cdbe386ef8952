"""Values in lines of text, as training loops print them: `loss: 0.1`, `loss=0.1`, `'loss': 0.1`, `Loss 0.1 (0.2)`.

Every expression is linear in the length of the line: repetitions are bounded, and no two neighbours can match the same
characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from torchferry.core.messages import say
from torchferry.numerics.curves.records import Sample, Trouble, lines, plain, samples_of

_STEP = re.compile(
    r"(?<![\w./@-])(?:global[_ ]?step|step|iter(?:ation)?|batch_idx|update)s?"
    r"(?:\((?:train|val|test)\))?[\"']?\s{0,8}[:=：#]?\s{0,8}[\[(]?\s{0,8}"
    r"(\d{1,15})(?:\s{0,8}/\s{0,8}\d{1,15})?(?!\w|\.\d)",
    re.IGNORECASE,
)
_BATCH = re.compile(
    r"(?<![\w./@-])batch\s{0,4}[:=：#]?\s{0,4}[\[(]?\s{0,8}(\d{1,15})\s{0,8}/\s{0,8}\d{1,15}(?!\w|\.\d)", re.IGNORECASE
)
_EPOCH = re.compile(
    r"(?<![\w./@-])epochs?(?:\((?:train|val|test)\))?[\"']?\s{0,8}[:=：#]?\s{0,8}[\[(\"']?\s{0,8}"
    r"(\d{1,9}(?:\.\d{1,17})?)(?:\s{0,4}/\s{0,4}\d{1,9})?(?![\w.])[\])\"']?"
    r"(?:\s{0,4}\[\s{0,12}(\d{1,15})\s{0,8}/\s{0,8}\d{1,15})?",
    re.IGNORECASE,
)
_TRAIN = re.compile(
    r"(?<![\w./@-])(?:train|test|val)\w{0,10}:?\s{1,4}(\d{1,9})\s{0,4}\[\s{0,12}(\d{1,15})/", re.IGNORECASE
)
_BAR = re.compile(r"\|\s{0,8}(\d{1,15})/\d{1,15}\s{0,4}\[|(?<![\w.])(\d{1,15})it\s{0,4}\[")
_PAIR = re.compile(r"^\s{0,64}\[\s{0,8}(\d{1,9}),\s{0,12}(\d{1,15})\]")
_FRACTION = re.compile(r"\[\s{0,12}(\d{1,15})\s{0,4}/\s{0,4}\d{1,15}\s{0,4}[\](]")
_RANK = re.compile(
    r"(?:(?<![\w.])(?:local[_ ]|global[_ ])?rank[\"']?\s{0,4}[:=]?\s{0,4}[\"']?(-?\d{1,6})(?!\w|\.\d|/)"
    r"|^\s{0,16}\[?(?:rank|default)(\d{1,6})\]?:|\[rank-(\d{1,6})/)",
    re.IGNORECASE,
)
_APART = re.compile(
    r"[(\[]\s{0,4}(val|valid|validation|eval|evaluation|test|testing)\s{0,4}[)\]]"
    r"|^[^\w]{0,16}(val|valid|validation|eval|evaluation|test|testing)\b",
    re.IGNORECASE,
)


class When(NamedTuple):
    """When a line was written, as far as it says so."""

    epoch: float | None
    step: float | None
    rank: int | None
    bar: bool


def when(text: str) -> When:
    """Return what a line says about its epoch, step and rank."""
    epoch: float | None = None
    step: float | None = None
    bar = False
    lower = text.lower()
    if "epoch" in lower and (match := _EPOCH.search(text)):
        epoch = float(match[1])
        step = float(match[2]) if match[2] else None
    if ("step" in lower or "iter" in lower or "update" in lower or "batch" in lower) and (
        match := _STEP.search(text) or _BATCH.search(text)
    ):
        step = float(match[1])
    if step is None and epoch is None and (match := _TRAIN.search(text) or _PAIR.search(text)):
        epoch, step = float(match[1]), float(match[2])
    if step is None and "[" in text and (match := _BAR.search(text)):
        step, bar = float(match[1] or match[2]), True
    if step is None and "/" in text and (match := _FRACTION.search(text)):
        step = float(match[1])
    return When(epoch, step, _rank(text, lower), bar)


def apart(text: str) -> str:
    """Return the word by which a line says that it is of validation or of a test; empty where it says nothing."""
    lower = text.lower()
    if "val" not in lower and "test" not in lower:
        return ""
    match = _APART.search(text)
    return (match[1] or match[2]).lower() if match else ""


def _rank(text: str, lower: str) -> int | None:
    if "rank" not in lower and "default" not in lower:
        return None
    match = _RANK.search(text)
    if not match:
        return None
    rank = int(match[1] or match[2] or match[3])
    return rank if rank >= 0 else None


_NUMBER = (
    r"[+-]?(?:\d{1,30}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,4})?|\.\d{1,40}(?:[eE][+-]?\d{1,4})?"
    r"|[nN][aA][nN]|[iI]nf(?:inity)?)"
)
_END = r"(?!\w|[:./]\d|-\d)"
_KEYED = re.compile(
    r"(?<![\w./@])([A-Za-z_\u4e00-\u9fff][\w./@-]{0,63}(?:\([\w ]{1,20}\))?)[\"']?\s{0,16}"
    r"(?:[:=：＝]|\bis\s|->)\s{0,16}[\"']?(?:tensor\(\[?)?(" + _NUMBER + ")" + _END
)
_BARE = re.compile(r"(?<![\w./@])([\w./-]{0,40}(?:[lL]oss|LOSS)\w{0,20}|[aA]cc@\d)\s{1,12}(" + _NUMBER + ")" + _END)
_QUALIFIERS = frozenset(
    {
        "lm",
        "aux",
        "moe",
        "load",
        "balancing",
        "train",
        "training",
        "val",
        "valid",
        "validation",
        "test",
        "eval",
        "evaluation",
        "avg",
        "average",
        "mean",
        "running",
        "total",
        "grad",
        "gradient",
        "global",
        "learning",
        "loss",
        "batch",
        "consumed",
    }
)
"""Words that belong to the name behind them, as in `lm loss` and `grad norm`."""

_LOOK_BACK = 128
_LOOK_AHEAD = 160
_FIELD = re.compile(r"\s{0,8}(?:[A-Za-z_][\w./-]{0,30}\s){1,3}")
"""Words of a field before the last one of its name: `| load balancing loss: 0.1 |`."""

_PHASES = frozenset({"train", "test", "val"})
_AFTER = 80
_GAP = 512
"""How far before a value it is looked for when it was: a line of any length is read in linear time."""

_NEVER = (None, None, None)
_STAMP = re.compile(r"[A-Z]{3,12} \d{4}-\d\d-\d\d |\[?\d{4}-\d\d-\d\d[ T]\d\d:")
_NOT_METRICS = frozenset(
    {"epoch", "step", "steps", "iter", "iters", "iteration", "iterations", "global step", "rank", "local rank"}
)
_MOST_BROKEN = 3


class TextLogReader:
    """Reads one log; `word` is a part of a metric's name without which a line is not looked at, in lower case."""

    def __init__(self, word: str = "") -> None:
        self._word = word
        self._epoch: float | None = None

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield what the log says, in its order.

        Raises:
            TorchferryError: the file cannot be read.
        """
        broken = 0
        for line in lines(path):
            text = line.text
            lower = text.lower()
            if self._word not in lower:
                if "epoch" in lower:
                    self._header(text)
                continue
            brace = text.find('{"')
            if brace >= 0:
                document = self._json(text[brace:])
                if document is not None:
                    yield from document
                    continue
                broken += 1
                if line.cut or broken <= _MOST_BROKEN:
                    yield Trouble(
                        say("a line looks like JSON but is not valid and was read as text: {text}", text=text[:80])
                    )
            yield from self._text(text, line.cut)

    def _json(self, text: str) -> list[Sample] | None:
        try:
            record, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return None
        return list(samples_of(record)) if isinstance(record, dict) else None

    def _span(self, text: str) -> tuple[int, int]:
        """Return the part of a line that can hold the wanted names and their values: the rest costs time alone."""
        if not self._word:
            return 0, len(text)
        lower = text.lower()
        if len(lower) != len(text):  # a letter whose small form is longer: places differ
            return 0, len(text)
        end = text.find(" ", lower.rfind(self._word) + _LOOK_AHEAD)
        begin = text.rfind(" ", 0, max(0, lower.find(self._word) - _LOOK_BACK))
        return begin + 1, len(text) if end < 0 else end

    def _header(self, text: str) -> None:
        epoch = when(text).epoch
        if epoch is not None:
            self._epoch = epoch

    def _text(self, text: str, cut: bool) -> Iterator[Sample | Trouble]:
        begin, end = self._span(text)
        matches = [match for match in _KEYED.finditer(text, begin, end) if _is_metric(text, match)]
        if not any("loss" in match[1].lower() for match in matches):
            taken = {match.start(2) for match in matches}
            matches += [match for match in _BARE.finditer(text, begin, end) if match.start(2) not in taken]
        if not matches:
            if "epoch" in text.lower():
                self._header(text)
            return
        matches.sort(key=re.Match.start)
        named = [(match, _name(text, match)) for match in matches]
        for start, stop, part in _records(text, named):
            yield from self._record(text[start:stop], part, cut and stop == len(text), len(text))

    def _record(
        self, text: str, part: list[tuple[re.Match[str], str]], cut: bool, end: int
    ) -> Iterator[Sample | Trouble]:
        time = when(text)
        if time.epoch is None and self._epoch is not None:
            time = time._replace(epoch=self._epoch)
        prefix = apart(text)
        for match, name in part:
            if self._word not in name.lower():
                continue
            if cut and match.end(2) == end:
                yield Trouble(
                    say("the last line is incomplete; its {metric} was not used", metric=f"{match[1]}: {match[2]}")
                )
                continue
            full = f"{prefix} {name}" if prefix and prefix not in plain(name) else name
            yield Sample(full, float(match[2]), time.epoch, time.step, time.rank, time.bar)


class PatternReader:
    """Reads values by the user's own expressions.

    Groups: `value` (or the only group), and where there are such, `step`, `epoch`, `rank` and `metric`. What an
    expression does not give of these is read from the line as `TextLogReader` does.
    """

    def __init__(self, patterns: tuple[re.Pattern[str], ...], metric: str) -> None:
        self._patterns = patterns
        self._metric = metric

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield what the expressions find, in the log's order.

        Raises:
            TorchferryError: the file cannot be read.
        """
        for line in lines(path):
            time: When | None = None
            for pattern in self._patterns:
                for match in pattern.finditer(line.text):
                    groups = {name: text for name, text in match.groupdict().items() if text is not None}
                    number = groups.get("value", match[1] if pattern.groups else match[0])
                    value = _float(number)
                    if value is None:
                        yield Trouble(
                            say("`{text}` is not a number; this match of --pattern was not used", text=str(number)[:40])
                        )
                        continue
                    time = time or when(line.text)
                    yield Sample(
                        groups.get("metric", self._metric),
                        value,
                        _float(groups.get("epoch")) if "epoch" in pattern.groupindex else time.epoch,
                        _float(groups.get("step")) if "step" in pattern.groupindex else time.step,
                        _whole(groups.get("rank")) if "rank" in pattern.groupindex else time.rank,
                        time.bar and "step" not in pattern.groupindex,
                    )


def _is_metric(text: str, match: re.Match[str]) -> bool:
    name = plain(match[1])
    if name in _NOT_METRICS:
        return False
    if match.start() and text[match.start() - 1] in "'\"" and text[match.end(1)] not in "'\"":
        return False  # inside a text: 'cuda:0'
    # timm numbers its epochs so: Train: 3 [ 50/1251
    return name not in _PHASES or not text.startswith(" [", match.end())


def _name(text: str, match: re.Match[str]) -> str:
    """Return a metric's name with the words before it that belong to it: all of a field's, else known ones."""
    start = match.start()
    if start < 2 or text[start - 1] != " " or not text[start - 2].isalnum():
        return match[1]
    before = text[max(0, start - _LOOK_BACK) : start]
    field = before[max(map(before.rfind, "|,;")) + 1 :] if any(mark in before for mark in "|,;") else ""
    words = before.split()
    if field and len(field) < len(before) and _FIELD.fullmatch(field):
        return f"{field.strip()} {match[1]}"
    name = match[1]
    for word in reversed(words[-2:]):
        if word.lower() not in _QUALIFIERS:
            break
        name = f"{word} {name}"
    return name


def _records(
    text: str, named: list[tuple[re.Match[str], str]]
) -> Iterator[tuple[int, int, list[tuple[re.Match[str], str]]]]:
    """Yield the records of a line: where each lies, and its values.

    Processes that write at once put several on one line, as does a progress bar whose carriage returns were lost. A
    new one begins where a name comes again and the text before it says anew when it was; a name that comes again
    without that, such as an average behind the value, is no new value.
    """
    start = last = 0
    part: list[tuple[re.Match[str], str]] = []
    for match, name in named:
        if any(name == name_before for _, name_before in part):
            last = max(last, match.start() - _GAP)
            gap = text[last : match.start()]
            if when(gap + text[match.start() : match.end() + _AFTER])[:3] == _NEVER:
                last = match.end()
                continue
            begin = last + max(gap.rfind("{'"), 0)
            if begin == last and (stamp := _STAMP.search(gap)):
                begin = last + stamp.start()
            yield start, begin, part
            start, part = begin, []
        part.append((match, name))
        last = match.end()
    if part:
        yield start, len(text), part


def _float(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text.strip().strip("\"'"))
    except ValueError:
        return None


def _whole(text: str | None) -> int | None:
    number = _float(text)
    return int(number) if number is not None and number == int(number) else None
