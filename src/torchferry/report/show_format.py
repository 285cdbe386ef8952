"""One decision with all there is to know of it: its places with their code, the programs, the ways, the choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Location
from torchferry.core.json_text import json_text
from torchferry.core.messages import say
from torchferry.core.recorded_decisions import FILE, RecordedDecision, decision_text
from torchferry.core.terminal import visible
from torchferry.programs.model import Obstacle
from torchferry.report.choices import choices_of, decided_places
from torchferry.report.decision_lines import in_a_row, waiting_words
from torchferry.report.decisions import ReportedDecision, effect_words
from torchferry.report.excerpts import ReadLines
from torchferry.report.json_format import decision_object, finding_object
from torchferry.report.programs import chain_of, own_circumstance, shared_conditions
from torchferry.report.show_places import code_lines
from torchferry.report.text_layout import TextLayout

_MOST_WAYS = 10


def lines(decision: ReportedDecision, target: str, read: ReadLines, asked: str, layout: TextLayout) -> Iterator[str]:
    """Yield a decision as text.

    Args:
        decision: The decision.
        target: The target of its report.
        read: Reads the code around a place.
        asked: The paths and the target, as a command takes them.
        layout: How it is written.
    """
    lang, paint, *_ = layout
    words = in_a_row(waiting_words(decision), lang)
    yield f"{paint(visible(decision.id), 'manual')}  {words}"
    for message in dict.fromkeys((decision.message, *(finding.message for finding in decision.findings))):
        yield from layout.wrapped(visible(message.render(lang)), "  ")
    yield ""
    yield layout.title(say("Choices, the recommended one first:"))
    for choice in choices_of(decision, target):
        yield from layout.wrapped(f"- {visible(choice.text.render(lang))}", "  ")
        yield from layout.wrapped(visible(say("costs: {cost}", cost=choice.cost).render(lang)), "    ")
        if choice.name:
            yield f"    torchferry decide {visible(decision.id)} {choice.name} {visible(asked)} --why REASON"
    programs = decision.titled_programs
    for title, names in programs:
        if names:
            yield ""
            yield layout.title(title)
            yield from layout.wrapped(visible(", ".join(names)), "  ")
    yield from _way_lines(decision.ways, layout)
    yield ""
    yield layout.title(say("Places: {count}", count=len(decision.places)))
    by_place: dict[Location, list[Finding]] = {}
    for finding in decision.findings:
        by_place.setdefault(finding.location, []).append(finding)
    for place in decision.places:
        codes = ", ".join(dict.fromkeys(finding.code for finding in by_place.get(place, ())))
        effects = dict.fromkeys(effect_words(finding.effect) for finding in by_place.get(place, ()))
        about = ", ".join([codes, *(effect.render(lang) for effect in effects)]) if codes else ""
        yield visible(f"  {place}{f'  ({about})' if about else ''}")
        yield from code_lines(place, read, layout)
    yield from _entry_lines(decision, target, layout)


def _entry_lines(decision: ReportedDecision, target: str, layout: TextLayout) -> Iterator[str]:
    """Yield what the file of decisions takes for an answer by hand, after an empty line; `by` is to be filled in."""
    name = Target.named(target).name
    for choice in choices_of(decision, target):
        if choice.name:
            record = RecordedDecision(decision.id, name, choice.name, "", "", decided_places(decision, choice.name))
            yield ""
            title = say(
                "To answer `{choice}` by hand, in {file} (say in `by` who decides):", choice=choice.name, file=FILE
            )
            yield layout.title(title)
            yield from decision_text(record).splitlines()


def _way_lines(ways: Sequence[tuple[str, Obstacle]], layout: TextLayout) -> Iterator[str]:
    """Yield how programs reach a decision, after an empty line: what all ways hang on is said once, before them."""
    if not ways:
        return
    lang = layout.lang
    shared = shared_conditions(ways)
    yield ""
    yield layout.title(say("How programs reach it:"))
    if shared:
        yield f"  {say('all of them only where').render(lang)}"
        for condition in shared:
            yield from layout.wrapped(visible(condition), "      ")
    for program, obstacle in ways[:_MOST_WAYS]:
        yield from layout.wrapped(visible(f"{program}: {chain_of(obstacle)}"), "  ")
        circumstance = own_circumstance(obstacle, shared)
        if circumstance is not None:
            yield from layout.wrapped(visible(circumstance.render(lang)), "      ")
    if len(ways) > _MOST_WAYS:
        yield f"  {say('... and {count} more', count=len(ways) - _MOST_WAYS).render(lang)}"


def render_json(decision: ReportedDecision, target: str, lang: str) -> str:
    """Return a decision as JSON, with its findings, its choices and the ways."""
    return json_text(
        {
            **decision_object(decision, lang),
            "choices": [
                {"name": each.name, "text": each.text.render(lang), "cost": each.cost.render(lang)}
                for each in choices_of(decision, target)
            ],
            "findings": [finding_object(finding, lang) for finding in decision.findings],
            "ways": [
                {"program": program, "chain": [str(step) for step in obstacle.call_path.steps]}
                for program, obstacle in decision.ways
            ],
        }
    )
