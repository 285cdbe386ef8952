"""A comparison of curves as text: the verdict, then for each metric its numbers and small drawings."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from torchferry.core.messages import say
from torchferry.numerics.curves.comparison import Compared, Comparison
from torchferry.numerics.curves.judging import percent
from torchferry.numerics.curves.measures import relative_error
from torchferry.numerics.report import curves_labels

_BLOCKS = "▁▂▃▄▅▆▇█"
_BROKEN = "×"
_WIDTH = 60
Paint = Callable[[str, str], str]


def lines(comparison: Comparison, lang: str, paint: Paint) -> Iterator[str]:
    """Yield the lines; `paint` colours a text by its kind (`met`, `not met`, `faint`)."""
    kind = "met" if comparison.passed else "not met"
    yield paint(curves_labels.headline(comparison).render(lang), kind)
    for compared in comparison.metrics:
        yield ""
        yield from _metric(compared, lang, paint)
    if comparison.smoothing.kind != "none":
        yield ""
        yield say("smoothed before comparing: {how}", how=comparison.smoothing).render(lang)
    if comparison.notes:
        yield ""
        yield from (curves_labels.safe(note.render(lang)) for note in comparison.notes)


def sparkline(values: Sequence[float], low: float, high: float, width: int = _WIDTH) -> str:
    """Draw values as one line of blocks between `low` and `high`; `×` where one is not finite."""
    count = min(width, len(values))
    drawn = []
    for index in range(count):
        part = values[
            index * len(values) // count : max((index + 1) * len(values) // count, index * len(values) // count + 1)
        ]
        if not all(map(math.isfinite, part)):
            drawn.append(_BROKEN)
            continue
        share = (math.fsum(value / len(part) for value in part) - low) / (high - low) if high > low else 0.0
        drawn.append(_BLOCKS[min(len(_BLOCKS) - 1, max(0, int(share * len(_BLOCKS))))])
    return "".join(drawn)


def _metric(compared: Compared, lang: str, paint: Paint) -> Iterator[str]:
    met = compared.verdict.met
    yield paint(curves_labels.verdict(compared, lang), "met" if met else "not met")
    yield f"  {curves_labels.extent(compared).render(lang)}"
    for note in curves_labels.notes(compared):
        yield f"  {curves_labels.safe(note.render(lang))}"
    if compared.verdict.rule.source:
        yield paint(f"  {say('source: {source}', source=compared.verdict.rule.source).render(lang)}", "faint")
    table = curves_labels.ends(compared, lang)
    head = ("", say("reference").render(lang), say("target").render(lang))
    rows = curves_labels.rows(compared, lang)
    drawn = list(_drawn(compared, lang))
    width = max(map(_columns, [row[0] for row in (*table, *rows, *drawn)]))
    for title, one, other in (head, *table):
        yield f"  {_padded(title, width)}  {_before(one, 12)} {_before(other, 12)}".rstrip()
    for title, text in rows:
        yield f"  {_padded(title, width)}  {text}"
    for title, blocks in drawn:
        yield f"  {_padded(title, width)}  {blocks}"


def _drawn(compared: Compared, lang: str) -> Iterator[tuple[str, str]]:
    reference, target = compared.pairing.reference, compared.pairing.target
    finite = [value for value in (*reference, *target) if math.isfinite(value)]
    if not finite or len(reference) < 3:
        return
    low, high = min(finite), max(finite)
    yield say("reference").render(lang), sparkline(reference, low, high)
    yield say("target").render(lang), sparkline(target, low, high)
    errors = [relative_error(r, t) for r, t in zip(reference, target, strict=True)]
    sizes = [math.nan if error is None else abs(error) for error in errors]
    largest = max((size for size in sizes if math.isfinite(size)), default=0.0)
    title = say("relative error, 0 .. {most}", most=percent(largest)).render(lang)
    yield title, sparkline(sizes, 0.0, largest)


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - _columns(text))


def _before(text: str, width: int) -> str:
    return " " * max(0, width - _columns(text)) + text
