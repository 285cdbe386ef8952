"""A comparison of curves, for people and for machines: the verdict, then for each metric its numbers."""

from __future__ import annotations

import csv
import io
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from torchferry.backends.acceptance import Limit
from torchferry.core.json_text import json_text
from torchferry.core.messages import Message, display_width, say, say_in, say_plural
from torchferry.numerics.curves.comparison import Compared, CurveComparison
from torchferry.numerics.curves.curve import Key, shown
from torchferry.numerics.curves.judging import UNDEFINED, Checked, percent
from torchferry.numerics.curves.measures import relative_error

TITLES = {
    "mean_relative": say("mean relative error"),
    "mean_absolute": say("mean absolute error"),
    "signed_relative": say("signed mean relative error"),
    "signed": say("signed mean error"),
    "max_relative": say("largest relative error"),
    "max_absolute": say("largest absolute error"),
    "first_relative": say("relative error of the first step"),
    "first_absolute": say("absolute error of the first step"),
    "final_relative": say("relative error of the last step"),
    "final_absolute": say("absolute error of the last step"),
}
"""What the measures are called."""


def safe(text: str) -> str:
    """Return a text of a log without what would steer a terminal or break a page."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Cs") else letter for letter in text)


def number(value: float | None) -> str:
    """Return a value of a curve with six digits; a dash where there is none."""
    return UNDEFINED if value is None else f"{value:.6g}"


def amount(measure: str, value: float | None) -> str:
    """Return a measured value: a relative one as percent."""
    return percent(value) if measure.endswith("relative") else number(value)


def headline(comparison: CurveComparison) -> Message:
    """Return the verdict on all metrics."""
    signed = {compared.verdict.rule.name for compared in comparison.metrics if compared.verdict.by_sign}
    if comparison.met and signed:
        return say(
            "Rule {rule} is met only because of the sign of the errors: this does not show that "
            "the target's curve agrees with the reference's.",
            rule=", ".join(sorted(signed)),
        )
    if comparison.met and not comparison.complete:
        least = max(comparison.metrics, key=lambda metric: metric.uncovered / metric.pairing.length)
        return say(
            "The target's curve covers only {covered} of {all} values of the reference; there it agrees.",
            covered=least.pairing.length - least.uncovered,
            all=least.pairing.length,
        )
    if comparison.met:
        return say("The target's curve agrees with the reference's.")
    failed = ", ".join(safe(compared.choice.title) for compared in comparison.metrics if not compared.verdict.met)
    return say("The target's curve does not agree with the reference's: {metrics}", metrics=failed)


def verdict(compared: Compared, lang: str) -> str:
    """Return the verdict on one metric: the rule, and each of its needs with what was measured."""
    needs = [
        say("{one} or {other}", one=_one(need[0], lang), other=_one(need[1], lang)).render(lang)
        if len(need) == 2
        else ", ".join(_one(checked, lang) for checked in need)
        for need in compared.verdict.needs
    ]
    template = (
        say(
            "{metric}: meets rule {rule}: {needs}",
            metric=safe(compared.choice.title),
            rule=compared.verdict.rule.name,
            needs="; ".join(needs),
        )
        if compared.verdict.met
        else say(
            "{metric}: does not meet rule {rule}: {needs}",
            metric=safe(compared.choice.title),
            rule=compared.verdict.rule.name,
            needs="; ".join(needs),
        )
    )
    return template.render(lang)


def bound(limit: Limit) -> str:
    """Return a limit: `<= 2 %`."""
    return f"{'<=' if limit.inclusive else '<'} {amount(limit.measure, limit.value)}"


def extent(compared: Compared) -> Message:
    """Return how much of the curves was put side by side."""
    pairing = compared.pairing
    return say_plural(
        "{count} common step, {first} .. {last}; without a counterpart: {reference} of the reference, "
        "{target} of the target",
        "{count} common steps, {first} .. {last}; without a counterpart: {reference} of the "
        "reference, {target} of the target",
        count=len(pairing.keys),
        first=shown(pairing.keys[0], pairing.form),
        last=shown(pairing.keys[-1], pairing.form),
        reference=pairing.left_out[0],
        target=pairing.left_out[1],
    )


def rows(compared: Compared, lang: str) -> list[tuple[str, str]]:
    """Return the measures, each with its name."""
    measures = compared.measures

    def at(key: Key | None) -> str:
        return "" if key is None else shown(key, compared.pairing.form)

    beyond = say_in("step", "none").render(lang)
    if measures.first_beyond is not None:
        beyond = say_plural(
            "{step} ({count} step in all)",
            "{step} ({count} steps in all)",
            step=at(measures.first_beyond),
            count=measures.beyond,
        ).render(lang)
    table = [
        (TITLES["mean_relative"], percent(measures.mean_relative)),
        (TITLES["mean_absolute"], number(measures.mean_absolute)),
        (TITLES["signed_relative"], percent(measures.signed_relative)),
        (TITLES["signed"], number(measures.signed)),
        (TITLES["max_relative"], _where(percent(measures.max_relative), at(measures.max_relative_at))),
        (TITLES["max_absolute"], _where(number(measures.max_absolute), at(measures.max_absolute_at))),
        (TITLES["final_relative"], percent(measures.final_relative)),
        (say("correlation"), number(measures.correlation)),
        (say("first step beyond {limit}", limit=percent(measures.tolerance)), beyond),
    ]
    if measures.lasting_from is not None:
        table.append((say("beyond it from this step to the end"), at(measures.lasting_from)))
    spread = compared.envelope
    if spread is not None:
        table += [
            (say("reference against itself"), ", ".join(map(percent, spread.own))),
            (say("target against the reference"), ", ".join(map(percent, spread.target))),
            (say("target within the reference's range"), percent(spread.inside)),
        ]
    return [(title.render(lang), text) for title, text in table]


def ends(compared: Compared, lang: str) -> list[tuple[str, str, str]]:
    """Return what can be read off either curve: its first, lowest and last value among the judged ones."""
    sides = [
        [value for value in side[compared.start :] if not math.isnan(value)] or [float("nan")]
        for side in (compared.pairing.reference, compared.pairing.target)
    ]
    first, other = sides
    return [
        (say_in("value of a curve", "first").render(lang), number(first[0]), number(other[0])),
        (say_in("value of a curve", "lowest").render(lang), number(min(first)), number(min(other))),
        (say_in("value of a curve", "last").render(lang), number(first[-1]), number(other[-1])),
    ]


def notes(compared: Compared) -> list[Message]:
    """Return what the reader must know of one metric: how it was read, paired and judged."""
    messages = list(compared.verdict.notes)
    if compared.uncovered:
        messages.append(
            say_plural(
                "{count} value of the reference was not compared: the target ends before it, or has "
                "no value there; --partial accepts this",
                "{count} values of the reference were not compared: the target ends before them, or "
                "has no value there; --partial accepts this",
                count=compared.uncovered,
            )
        )
    if compared.start:
        messages.append(
            say("judged from {step} on", step=shown(compared.pairing.keys[compared.start], compared.pairing.form))
        )
    messages += compared.pairing.notes
    messages += [say("reference: {what}", what=note) for curve in compared.references for note in curve.notes]
    messages += [say("target: {what}", what=note) for curve in compared.targets for note in curve.notes]
    return list(dict.fromkeys(messages))


def _one(checked: Checked, lang: str) -> str:
    title = TITLES[checked.limit.measure].render(lang)
    measured = amount(checked.limit.measure, checked.measured)
    return (
        f"{title} {measured} {bound(checked.limit)}"
        if checked.met
        else say("{title} {measured}, not {bound}", title=title, measured=measured, bound=bound(checked.limit)).render(
            lang
        )
    )


def _where(value: str, step: str) -> str:
    return f"{value} ({step})" if step else value


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
    return json_text(document, indent=2, allow_nan=False)


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
                    "bound": bound(checked.limit),
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
        "notes": [note.render(lang) for note in notes(compared)],
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(text: str) -> str:
    """Return a text that a spreadsheet does not take for a formula."""
    text = safe(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


# A comparison of curves as text: the verdict, then for each metric its numbers and small drawings.

_BLOCKS = "▁▂▃▄▅▆▇█"
_BROKEN = "×"
_WIDTH = 60
Paint = Callable[[str, str], str]


def lines(comparison: CurveComparison, lang: str, paint: Paint) -> Iterator[str]:
    """Yield the lines; `paint` colours a text by its kind (`met`, `not met`, `faint`)."""
    kind = "met" if comparison.passed else "not met"
    yield paint(headline(comparison).render(lang), kind)
    for compared in comparison.metrics:
        yield ""
        yield from _metric_lines(compared, lang, paint)
    if comparison.smoothing.kind != "none":
        yield ""
        yield say("smoothed before comparing: {how}", how=comparison.smoothing).render(lang)
    if comparison.notes:
        yield ""
        yield from (safe(note.render(lang)) for note in comparison.notes)


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
    yield paint(verdict(compared, lang), "met" if met else "not met")
    yield f"  {extent(compared).render(lang)}"
    for note in notes(compared):
        yield f"  {safe(note.render(lang))}"
    if compared.verdict.rule.source:
        yield paint(f"  {say('source: {source}', source=compared.verdict.rule.source).render(lang)}", "faint")
    table = ends(compared, lang)
    head = ("", say("reference").render(lang), say("target").render(lang))
    measured = rows(compared, lang)
    drawn = list(_drawn(compared, lang))
    width = max(map(display_width, [row[0] for row in (*table, *measured, *drawn)]))
    for title, left, other in (head, *table):
        yield f"  {_padded(title, width)}  {_before(left, 12)} {_before(other, 12)}".rstrip()
    for title, text in measured:
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


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - display_width(text))


def _before(text: str, width: int) -> str:
    return " " * max(0, width - display_width(text)) + text
