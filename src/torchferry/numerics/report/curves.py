"""A comparison of curves, for people and for machines: the verdict, then for each metric its numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from torchferry.core.messages import say
from torchferry.numerics.curves.comparison import Compared, CurveComparison
from torchferry.numerics.curves.curve import shown
from torchferry.numerics.curves.judging import percent
from torchferry.numerics.curves.measures import relative_error
from torchferry.numerics.report import curves_labels

# A comparison of curves for machines: JSON with every measure, CSV with every step.


SCHEMA = 1


def render_json(comparison: CurveComparison, lang: str) -> str:
    """Return the comparison as JSON; what is undefined or not finite is null there."""
    document = {
        "schema": SCHEMA,
        "kind": "torchferry compare curves",
        "met": comparison.passed,
        "complete": comparison.complete,
        "references": [str(path) for path in comparison.references],
        "targets": [str(path) for path in comparison.targets],
        "smoothing": str(comparison.smoothing),
        "notes": [note.render(lang) for note in comparison.notes],
        "metrics": [_metric_document(compared, lang) for compared in comparison.metrics],
    }
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def render_csv(comparison: CurveComparison) -> str:
    """Return one row a metric and step: both values, their difference and the relative error."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("metric", "epoch", "step", "judged", "reference", "target", "error", "relative_error"))
    for compared in comparison.metrics:
        pairing = compared.pairing
        for index, (key, reference, target) in enumerate(
            zip(pairing.keys, pairing.reference, pairing.target, strict=True)
        ):
            relative = relative_error(reference, target)
            writer.writerow(
                (
                    _cell(compared.choice.title),
                    f"{key[0]:.17g}",
                    f"{key[1]:.17g}",
                    int(index >= compared.start),
                    repr(reference),
                    repr(target),
                    repr(target - reference),
                    "" if relative is None else repr(relative),
                )
            )
    return text.getvalue()


def _metric_document(compared: Compared, lang: str) -> dict[str, Any]:
    form = compared.pairing.form
    verdict = compared.verdict
    measures = {
        name: (shown(value, form) if isinstance(value, tuple) else _finite(value))
        for name, value in asdict(compared.measures).items()
    }
    spread = compared.envelope
    return {
        "metric": compared.choice.reference,
        "target_metric": compared.choice.target,
        "met": verdict.met,
        "met_by_sign_alone": verdict.by_sign,
        "rule": {"name": verdict.rule.name, "title": verdict.rule.title.render(lang), "source": verdict.rule.source},
        "needs": [
            [
                {
                    "measure": checked.limit.measure,
                    "bound": curves_labels.bound(checked.limit),
                    "limit": checked.limit.value,
                    "inclusive": checked.limit.inclusive,
                    "measured": _finite(checked.measured),
                    "met": checked.met,
                }
                for checked in need
            ]
            for need in verdict.needs
        ],
        "aligned_by": form,
        "common_steps": len(compared.pairing.keys),
        "reference_values": compared.pairing.length,
        "not_covered": compared.uncovered,
        "first_step": shown(compared.pairing.keys[0], form),
        "last_step": shown(compared.pairing.keys[-1], form),
        "judged_from": shown(compared.pairing.keys[compared.start], form),
        "left_out": {"reference": compared.pairing.left_out[0], "target": compared.pairing.left_out[1]},
        "measures": measures,
        "envelope": None
        if spread is None
        else {**asdict(spread), "bias": _finite(spread.bias), "allowed": spread.allowed, "met": spread.met},
        "notes": [note.render(lang) for note in curves_labels.notes(compared)],
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(text: str) -> str:
    """Return a text that a spreadsheet does not take for a formula."""
    text = curves_labels.safe(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


# A comparison of curves as text: the verdict, then for each metric its numbers and small drawings.

_BLOCKS = "▁▂▃▄▅▆▇█"
_BROKEN = "×"
_WIDTH = 60
Paint = Callable[[str, str], str]


def lines(comparison: CurveComparison, lang: str, paint: Paint) -> Iterator[str]:
    """Yield the lines; `paint` colours a text by its kind (`met`, `not met`, `faint`)."""
    kind = "met" if comparison.passed else "not met"
    yield paint(curves_labels.headline(comparison).render(lang), kind)
    for compared in comparison.metrics:
        yield ""
        yield from _metric_lines(compared, lang, paint)
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


def _metric_lines(compared: Compared, lang: str, paint: Paint) -> Iterator[str]:
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
    for title, left, other in (head, *table):
        yield f"  {_padded(title, width)}  {_before(left, 12)} {_before(other, 12)}".rstrip()
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
    # translators: the run or log that the target is compared with
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
