"""What is said of a comparison, in words that the text, the page and the plot share."""

from __future__ import annotations

import math
import unicodedata

from torchferry.backends.acceptance import Limit
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.numerics.curves.comparison import Compared, CurveComparison
from torchferry.numerics.curves.curve import Key, shown
from torchferry.numerics.curves.judging import UNDEFINED, Checked, percent

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
            "{metric}: met by rule {rule}: {needs}",
            metric=safe(compared.choice.title),
            rule=compared.verdict.rule.name,
            needs="; ".join(needs),
        )
        if compared.verdict.met
        else say(
            "{metric}: not met by rule {rule}: {needs}",
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
