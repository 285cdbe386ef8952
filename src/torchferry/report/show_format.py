"""One decision with all there is to know of it: its places with their code, the programs, the ways, the choices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from torchferry.core.finding import Finding, Location
from torchferry.core.json_text import json_text
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.recorded_decisions import ACCEPT, FIX
from torchferry.core.terminal import visible
from torchferry.programs.model import Judged, Obstacle
from torchferry.report.decisions import ReportedDecision, effect_words
from torchferry.report.excerpts import ReadLines
from torchferry.report.json_format import decision_object, finding_object
from torchferry.report.model import Report
from torchferry.report.programs import chain_of, circumstance_of
from torchferry.report.text_format import TextLayout, in_a_row, waiting_words
from torchferry.rules.decisions import is_decided_by

_MOST_WAYS = 10

ProgramWays = Mapping[Location, Sequence[tuple[int, Judged, Obstacle]]]
"""How programs come to places: for each place the programs and what the target lacks there, numbered in their order."""


class DecisionChoice(NamedTuple):
    """One way to settle a decision.

    Attributes:
        name: What `torchferry decide` calls it; empty for what a person does in the code.
        text: What it means, and what it costs.
    """

    name: str
    text: Message


def choices_of(decision: ReportedDecision) -> list[DecisionChoice]:
    """Return the ways to settle a decision, the recommended one first."""
    choices = []
    fixed = sum(is_decided_by(finding, FIX) for finding in decision.findings)
    if fixed:
        fixes = say_plural(
            "take the edit that torchferry proposes (one place)",
            "take the edits that torchferry proposes ({count} places)",
            count=fixed,
        )
        choices.append(DecisionChoice(FIX, fixes))
    else:
        change = say_plural(
            "change the code as it says above (one place)",
            "change the code as it says above ({count} places)",
            count=len(decision.places),
        )
        choices.append(DecisionChoice("", change))
    if can_be_accepted(decision):
        accepted = say("leave it as it is: the report goes on to say that you have accepted it")
        choices.append(DecisionChoice(ACCEPT, accepted))
    return choices


def can_be_accepted(decision: ReportedDecision) -> bool:
    """Whether somebody can decide that its places stay: not where a program stops, nor of what is no place of code."""
    is_of_code = bool(decision.findings) and all(is_decided_by(each, ACCEPT) for each in decision.findings)
    return is_of_code and not decision.stopped


def lines(decision: ReportedDecision, report: Report, read: ReadLines, asked: str, layout: TextLayout) -> Iterator[str]:
    """Yield a decision as text.

    Args:
        decision: The decision.
        report: The report that has it.
        read: Reads the code around a place.
        asked: The paths and the target, as a command takes them.
        layout: How it is written.
    """
    lang, paint, _, _ = layout
    words = in_a_row(waiting_words(decision), lang)
    yield f"{paint(visible(decision.id), 'manual')}  {words}"
    for message in dict.fromkeys((decision.message, *(finding.message for finding in decision.findings))):
        yield from layout.wrapped(visible(message.render(lang)), "  ")
    yield ""
    yield layout.title(say("Choices:"))
    for choice in choices_of(decision):
        yield from layout.wrapped(f"- {choice.text.render(lang)}", "  ")
        if choice.name:
            yield f"    torchferry decide {visible(decision.id)} {choice.name} {visible(asked)} --why REASON"
    programs = (
        (say("It stops:"), decision.stopped),
        (say("These may need it:"), decision.undecided),
        (say("These reach one of its places:"), decision.waiting),
    )
    for title, names in programs:
        if names:
            yield ""
            yield layout.title(title)
            yield from layout.wrapped(visible(", ".join(names)), "  ")
    ways = ways_to(decision, ways_by_place(report.programs))
    if ways:
        yield ""
        yield layout.title(say("How they come there:"))
    for judged, obstacle in ways[:_MOST_WAYS]:
        circumstance = circumstance_of(obstacle).render(lang)
        yield from layout.wrapped(visible(f"{judged.program.title} ({circumstance}): {chain_of(obstacle)}"), "  ")
    if len(ways) > _MOST_WAYS:
        yield f"  {say('... and {count} more', count=len(ways) - _MOST_WAYS).render(lang)}"
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
        for number, text in read(place):
            mark = ">" if place.line <= number <= place.end_line else " "
            yield layout.cut(f"    {mark} {number:>5} | {visible(text)}")


def ways_by_place(programs: Iterable[Judged]) -> ProgramWays:
    """Return how programs come to places, by the places, where that was followed."""
    by_place: defaultdict[Location, list[tuple[int, Judged, Obstacle]]] = defaultdict(list)
    number = 0
    for judged in programs:
        for obstacle in (*judged.blockers, *judged.undecided, *judged.builds, *judged.doubts):
            by_place[obstacle.place].append((number, judged, obstacle))
            number += 1
    return by_place


def ways_to(decision: ReportedDecision, by_place: ProgramWays) -> list[tuple[Judged, Obstacle]]:
    """Return how programs come to one of the places of a decision, in the order of the programs."""
    places = {(finding.location if finding.origin is None else finding.origin) for finding in decision.findings}
    places |= set(decision.places)
    ways = {number: (judged, obstacle) for place in places for number, judged, obstacle in by_place.get(place, ())}
    return [ways[number] for number in sorted(ways)]


def render_json(decision: ReportedDecision, report: Report, lang: str) -> str:
    """Return a decision as JSON, with its findings, its choices and the ways."""
    return json_text(
        {
            **decision_object(decision, lang),
            "choices": [{"name": each.name, "text": each.text.render(lang)} for each in choices_of(decision)],
            "findings": [finding_object(finding, lang) for finding in decision.findings],
            "ways": [
                {"program": judged.program.title, "chain": [str(step) for step in obstacle.way.steps]}
                for judged, obstacle in ways_to(decision, ways_by_place(report.programs))
            ],
        }
    )
