"""A program, a rule, a place or a settled decision of a report with all there is to know of it, and with its code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchferry.core.finding import Finding, Location
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.recorded_decisions import FIX, RecordedDecision
from torchferry.core.terminal import visible
from torchferry.programs.model import JudgedProgram, Unread
from torchferry.report.decision_lines import decision_rows
from torchferry.report.decisions import ReportedDecision, counted_decisions, effect_words
from torchferry.report.excerpts import ReadLines
from torchferry.report.full_format import GRADE_TITLES
from torchferry.report.model import Report
from torchferry.report.programs import unread_chain, verdict_of
from torchferry.report.reasons import reasons_of
from torchferry.report.text_layout import TextLayout

_MOST_FINDINGS = 40
"""Findings that are shown with their code; the full report has all."""

_MOST_STARTS = 3


def program_lines(report: Report, judged: JudgedProgram, read: ReadLines, layout: TextLayout) -> Iterator[str]:
    """Yield a program as text: its verdict, how it is started, what it comes to and how, and what it waits for.

    Args:
        report: The report.
        judged: The program.
        read: Reads the code around a place.
        layout: How it is written.
    """
    lang = layout.lang
    yield from layout.wrapped(visible(f"{judged.program.title}  {verdict_of(judged).render(lang)}"), "", None, "  ")
    for start in judged.program.starts[:_MOST_STARTS]:
        started = say("started by `{command}` ({place})", command=start.command, place=start.place)
        yield from layout.wrapped(visible(started.render(lang)), "  ")
    waits = _waited_for(report, judged)
    reasons = [each for each in reasons_of([judged], report.decisions, whole=True) if each.steps or not each.decisions]
    if reasons:
        yield ""
        yield layout.title(say("What it comes to, and the way there:"))
    texts = _code_of_steps(judged)
    for reason in reasons:
        yield from layout.wrapped(visible(reason.words.render(lang)), "  ")
        for step in reason.steps:
            text = texts.get(step) or _code_at(step, read)
            yield layout.cut(visible(f"      {step}  | {text}" if text else f"      {step}"))
    if waits:
        yield ""
        yield layout.title(say("Decisions that it waits for: {count}", count=len(waits)))
        yield from decision_rows(waits, report.target, layout)
    if judged.accepted:
        yield ""
        yield layout.title(say("Accepted as they are: {count}", count=len(judged.accepted)))
        accepted = {place.place for place in judged.accepted}
        yield from finding_lines([each for each in report.accepted if _was_at(each) in accepted], read, layout)


def _waited_for(report: Report, judged: JudgedProgram) -> list[ReportedDecision]:
    """Return the decisions that a program waits for, and the fixes to read and unresolved places that it reaches."""
    return [each for each in report.decisions.all if judged.program.title in each.programs]


def _was_at(finding: Finding) -> Location:
    return finding.location if finding.origin is None else finding.origin


def _code_of_steps(judged: JudgedProgram) -> dict[str, str]:
    """Return the code at the steps by which a program comes to what its verdict names."""
    obstacles = (*judged.blockers, *judged.builds, *judged.doubts, *judged.optional, *judged.alternatives)
    steps = [step for each in obstacles for step in each.call_path.steps]
    steps += [step for each in judged.unread for step in each.chain]
    return {str(step): step.text for step in steps}


def _code_at(step: str, read: ReadLines) -> str:
    """Return the line of a step, `file:line`; nothing where it has none that can be read."""
    place = _place_of(step)
    lines = read(place) if place.line else ()
    return next((text.strip() for number, text in lines if number == place.line), "")


def finding_lines(findings: Sequence[Finding], read: ReadLines, layout: TextLayout) -> Iterator[str]:
    """Yield findings with their whole text and the code around them; of very many the first ones."""
    lang = layout.lang
    for finding in findings[:_MOST_FINDINGS]:
        about = ", ".join((
            finding.code,
            say(GRADE_TITLES[finding.grade]).render(lang),
            effect_words(finding.effect).render(lang),
        ))  # fmt: skip
        yield f"  {layout.paint(visible(str(finding.location)), finding.grade.value)}  ({about})"
        yield from layout.wrapped(visible(finding.message.render(lang)), "      ")
        yield from code_lines(finding.location, read, layout)
    if len(findings) > _MOST_FINDINGS:
        more = say("... and {count} more; `torchferry scan -f full` has all", count=len(findings) - _MOST_FINDINGS)
        yield f"  {more.render(lang)}"


def code_lines(place: Location, read: ReadLines, layout: TextLayout) -> Iterator[str]:
    """Yield the code around a place, with a mark beside its lines."""
    for number, text in read(place):
        mark = ">" if place.line <= number <= place.end_line else " "
        yield layout.cut(f"    {mark} {number:>5} | {visible(text)}")


def rule_or_place_lines(
    report: Report,
    name: str,
    findings: Sequence[Finding],
    unread: Sequence[tuple[JudgedProgram, Unread]],
    read: ReadLines,
    layout: TextLayout,
) -> Iterator[str]:
    """Yield what was found by a rule, or at a place: first the decisions that it belongs to, then each place.

    Args:
        report: The report.
        name: What was asked for.
        findings: What was found.
        unread: What was not read there, with the programs that reach it.
        read: Reads the code around a place.
        layout: How it is written.
    """
    lang = layout.lang
    if findings:
        counted = say_plural("one finding", "{count} findings", count=len(findings)).render(lang)
        yield f"{layout.paint(visible(name), 'path')}  {counted}"
    keys = {each.key for each in findings}
    decisions = [each for each in report.decisions.all if not keys.isdisjoint(finding.key for finding in each.findings)]
    if decisions:
        yield ""
        yield layout.title(counted_decisions(decisions))
        yield from decision_rows(decisions, report.target, layout)
        yield ""
    yield from finding_lines(findings, read, layout)
    for place, reason in dict.fromkeys((each.place, each.reason) for _, each in unread):
        yield visible(f"{place}  {say('was not read').render(lang)}")
        yield from layout.wrapped(visible(reason.render(lang)), "      ")
        where = _place_of(place)
        yield from code_lines(where, read, layout) if where.line else ()
        yield layout.title(say("Programs that reach it:"))
        for judged, each in unread:
            if each.place == place:
                yield from layout.wrapped(visible(f"{judged.program.title}: {unread_chain(each)}"), "  ")


def _place_of(step: str) -> Location:
    """Return the place of a step, `file:line`; its line is 0 where it has none."""
    path, _, number = step.rpartition(":")
    line = int(number) if path and number.isdecimal() else 0
    return Location(path if line else step, line, 1, line, 1)


def settled_lines(report: Report, decision: RecordedDecision, read: ReadLines, layout: TextLayout) -> Iterator[str]:
    """Yield a decision that somebody has settled: who, why, and its places as they are now."""
    yield from layout.wrapped(visible(f"{decision.id}  {_settled(decision).render(layout.lang)}"), "", None, "  ")
    findings = [each for each in report.findings if decision.holds_for(*each.key)]
    gone = len(decision.places) - len({each.key for each in findings})
    if gone and decision.choice != FIX:
        changed = say_plural(
            "one of its places has changed or is gone, and is asked about again",
            "{count} of its places have changed or are gone, and are asked about again",
            count=gone,
        )
        yield f"  {changed.render(layout.lang)}"
    yield from finding_lines(findings, read, layout)


def _settled(decision: RecordedDecision) -> Message:
    settled = say("settled: {name} accepted its places as they are", name=decision.by)
    if decision.choice == FIX:
        settled = say("settled: {name} took its edits", name=decision.by)
    return say("{message} ({why})", message=settled, why=decision.why) if decision.why else settled
