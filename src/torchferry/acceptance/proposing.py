"""Which metrics of a CUDA run's log an accept file begins with, and how much worse each may be.

What a run is for comes first: accuracies, mAP, perplexity, BLEU. A loss is taken where a log has no such result, that
of the validation before that of the training. A tolerance is taken from the spread of the values at the end of the log;
where there are too few to say, it stays empty, and the file cannot be used before somebody fills it in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from torchferry.acceptance.metrics import LoggedValue, find_values, is_ratio
from torchferry.core.errors import TorchferryError
from torchferry.core.record import NamedTuple
from torchferry.numerics.curves.reading import Wanted
from torchferry.numerics.curves.reading import read as read_curves
from torchferry.numerics.curves.records import beginning, lines, plain

LEAST_VALUES = 16
"""Values from which on the end of a log says how much they scatter."""

_LEAST_AT_END = 8
"""Values at the end, at least: with the quarter of a longer log."""

_MARGIN = 2.0
"""By how many times the range of these values two healthy runs may differ. Of eight values that scatter normally the
range is 2.85 standard deviations in the mean (tables of the studentized range), so this is four of the difference."""

_LESS = frozenset(
    {
        "loss",
        "error",
        "err",
        "wer",
        "cer",
        "perplexity",
        "ppl",
        "mae",
        "mse",
        "rmse",
        "fid",
        "epe",
        "lpips",
        "bpb",
        "nll",
    }
)
_MORE = frozenset(
    {"bleu", "rouge", "rouge1", "rouge2", "rougel", "meteor", "cider", "spice", "psnr", "ssim", "reward", "ap", "ar"}
)
_NO_RESULT = frozenset({"loss", "losses", "nll"})
"""Of the words above, those of a loss: it is what is trained and not what the run is for."""

_OF_VALIDATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})

_NAMED = re.compile(r"(?<![\w./@-])([A-Za-z][\w@./-]{0,30}?)\)?\s{0,4}(?:[:=]\s{0,4}|\s{1,8})(?=[+-]?\.?\d)")
"""A name with a number behind it."""

_COCO_LINE = re.compile(r"Average (?:Precision|Recall)\s+\(A[PR]\) @\[")
COCO_PATTERN = (
    r"Average Precision\s+\(AP\) @\[ IoU=0\.50:0\.95 \| area=\s+all \| maxDets=\s*100 \] = (?P<value>[0-9.]+)"
)
"""The first line of the summary that pycocotools prints (pycocotools/cocoeval.py, `summarize`); it has -1 where there
is nothing to say."""

_COCO = re.compile(COCO_PATTERN)

_MOST_LINES = 20_000
_MOST_NAMES = 400
_MOST_RESULTS = 4


class LoggedMetric(NamedTuple):
    """A metric of the CUDA run's log.

    Attributes:
        name: As the log has it.
        last: Its last value.
        best: Its best value.
        less: Whether less is better.
        is_result: Whether it is what the run is for, and no loss.
        values: How many values the log has.
        unit: `%` or `share` for a share of a whole, else empty: of the values and of the log.
        tolerance: How much worse it may be, from the spread at the end of the log; None where that says nothing.
        pattern: An expression that finds it where a name does not.
    """

    name: str
    last: float
    best: float
    less: bool
    is_result: bool
    values: int = 1
    unit: str = ""
    tolerance: float | None = None
    pattern: str = ""


def proposed(path: Path) -> tuple[LoggedMetric, ...]:
    """Return the metrics of a log, those that a first accept file should have before the others.

    Raises:
        TorchferryError: the log cannot be read.
    """
    metrics: dict[str, LoggedMetric] = {}
    for name in _names(path):
        key = plain(name)
        if key in metrics or not _is_known(key):
            continue
        for named in (name, f"val {name}", f"test {name}"):
            try:
                values = find_values(path, named)
            except TorchferryError:
                continue  # of several splits, or of a table without a row for all: a fuller name may be one
            metric = _metric(named, values)
            if metric is not None:
                metrics[plain(named)] = metric
            break
    if any(_COCO.search(line.text) for line, _ in zip(lines(path), range(_MOST_LINES), strict=False)):
        metric = _metric("AP", find_values(path, "AP", COCO_PATTERN))
        if metric is not None:
            metrics["ap"] = metric._replace(pattern=COCO_PATTERN)
            metrics.pop("iou", None)  # the threshold of these lines
    return tuple(sorted(metrics.values(), key=_order))


def first_gates(metrics: tuple[LoggedMetric, ...]) -> int:
    """Return how many of the proposed metrics are gates from the start: the results, or else the first loss."""
    results = sum(metric.is_result for metric in metrics)
    return min(results, _MOST_RESULTS) or min(len(metrics), 1)


def spread(values: list[float]) -> float | None:
    """Return how much worse the last of some values may be in another run, with two digits; None where none is told."""
    if len(values) < LEAST_VALUES:
        return None
    end = values[-max(_LEAST_AT_END, len(values) // 4) :]
    width = _MARGIN * (max(end) - min(end))
    if not width > 0:
        return None
    unit = 10.0 ** (math.floor(math.log10(width)) - 1)
    return float(f"{math.ceil(round(width / unit, 6)) * unit:.12g}")


def _order(metric: LoggedMetric) -> tuple[bool, bool, str]:
    words = plain(metric.name).split()
    return not metric.is_result, not _OF_VALIDATION & set(words), plain(metric.name)


def _metric(name: str, values: list[LoggedValue]) -> LoggedMetric | None:
    finite = [value.number for value in values if math.isfinite(value.number)]
    if not finite:
        return None
    words = plain(name).split()
    less = bool(_LESS & set(words)) or any(word.endswith(("loss", "error")) for word in words)
    is_result = not any(word in _NO_RESULT or word.endswith("loss") for word in words)
    return LoggedMetric(
        name,
        finite[-1],
        min(finite) if less else max(finite),
        less,
        is_result,
        len(finite),
        _unit(name, values),
        spread(finite) if len(finite) == len(values) else None,  # a person decides about a run with NaN
    )


def _unit(name: str, values: list[LoggedValue]) -> str:
    """Return what a share of a whole is written as: a log whose first values are small would leave it open."""
    if not is_ratio(name) and not any(value.percent for value in values):
        return ""
    return "%" if values[-1].percent or abs(values[-1].number) > 1 else "share"


def _is_known(key: str) -> bool:
    """Whether a name is that of a result or of a loss: nobody knows of others which way is better."""
    words = set(key.split())
    return is_ratio(key) or bool(words & (_LESS | _MORE)) or any(word.endswith("loss") for word in words)


def _names(path: Path) -> Iterator[str]:
    """Yield the names that have a value in a log, as far as readers of curves, tables and text find them."""
    found: dict[str, None] = {}
    log = read_curves(path, Wanted(every=True))
    found.update((points.metric, None) for ranks in log.points.values() for points in ranks.values())
    if b"\0" not in beginning(path, 4096):
        for line, _ in zip(lines(path), range(_MOST_LINES), strict=False):
            if _COCO_LINE.search(line.text) is None:
                found.update((match[1], None) for match in _NAMED.finditer(line.text))
            found.update(_heads(line.text))
            if len(found) > _MOST_NAMES:
                break
    yield from found


def _heads(text: str) -> Iterator[tuple[str, None]]:
    """Yield the cells of a line that may be the head of a table; behind one that ends with a colon goes on a bar."""
    cells = text.strip().strip("|").split("|") if text.count("|") >= 2 and "%|" not in text else text.split()
    if len(cells) < 3:
        return
    for cell in cells[:30]:
        name = cell.strip().rstrip(":").rstrip(")%")
        if name[:1].isalpha() and len(name) <= 24:
            yield name, None
        if cell.endswith(":"):
            return
