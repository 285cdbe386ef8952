"""A report as text to act on: a first screen with the verdict and what to decide first, then each thing once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchferry.core.finding import Grade
from torchferry.core.messages import cut, display_width, say, say_plural
from torchferry.core.terminal import visible
from torchferry.programs.model import Verdict
from torchferry.report.decision_lines import decision_lines, fix_lines, lines_of_decisions
from torchferry.report.decisions import Decisions
from torchferry.report.first_screen import (
    FEW,
    decisions_on_screen,
    first_decisions,
    names_first,
    next_commands,
    program_counts,
    room_for_first,
)
from torchferry.report.full_format import (
    by_file,
    failure_lines,
    head_lines,
    mention_lines,
    package_lines,
    unlooked_lines,
)
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import Report
from torchferry.report.programs import VERDICT_GRADES, verdict_of
from torchferry.report.reasons import Reason, program_groups, reasons_of, unread_reasons
from torchferry.report.text_layout import LONGEST, TextLayout, some_of

SCREEN = 24
"""Lines of a screen; at the end of a longer report its verdict stands once more."""

_MOST_PLACES = 3
_MOST_NAMES = 3
_LEAST_ROOM = 4
"""Lines of the first screen that the decisions have; where programs take more, these are told in fewer."""

_MOST_TEXT = 2
"""Lines that why something was not read takes."""

_MOST_UNREAD = 8
_MOST_UNRESOLVED = 4
_MOST_STEPS = 3
_MOST_REASONS = 4
"""Reasons below programs that share them."""


def render(report: Report, lang: str) -> str:
    """Return the report as plain text."""
    return "".join(f"{line}\n" for line in lines(report, TextLayout(lang)))


def lines(report: Report, layout: TextLayout, paths: Sequence[str] = (".",)) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        report: The report.
        layout: How they are written.
        paths: What was named on the command line.
    """
    verdict = verdict_sentence(report).render(layout.lang)
    in_lines = [*layout._replace(width=layout.width if layout.is_terminal else LONGEST).wrapped(verdict, "")]
    painted = [layout.paint(line, "verdict") for line in in_lines]
    yield from painted
    count = 0
    for line in _below_verdict(report, layout, paths, SCREEN - sum(map(layout.rows, in_lines))):
        yield from layout.limited(line)
        count += 1
    if count > SCREEN:
        yield ""
        yield from painted


def _below_verdict(report: Report, layout: TextLayout, paths: Sequence[str], room: int) -> Iterator[str]:
    """Yield all lines but those of the verdict; `room` is how many rows the first screen has for them."""
    lang, paint, verbose, *_ = layout
    decisions = report.decisions
    head, counts = [*head_lines(report, lang)], [*program_counts(report, layout)]
    room -= sum(map(layout.rows, head))
    if names_first(report) and room_for_first(report, room - len(counts)) < _LEAST_ROOM:
        counts = [*program_counts(report, layout, most=0)]
    first = decisions_on_screen(report, room - len(counts), layout)
    yield from (*head, *counts)
    yield from first_decisions(report, first, layout)
    yield from next_commands(report, first.decisions, paths, lang)
    if verbose or len(report.programs) < FEW:
        yield from _programs(report, decisions, layout)
    yield from unresolved_lines(report, layout)
    yield from decision_lines(decisions.to_decide, layout, first.decisions[: first.with_text])
    yield from fix_lines(decisions.to_read, layout)
    yield from accepted_lines(report, layout)
    yield from _left_alone(report, lang)
    if report.native is not None:
        from torchferry.report.native import native_lines  # imported late: most projects have no C++

        yield ""
        yield from native_lines(report.native, lang, verbose)
    yield from package_lines(report, lang, paint)
    yield from unlooked_lines(report, lang, paint)
    if verbose:
        yield from by_file(report.findings, lang, paint, verbose)
    if verbose and report.words.staying:
        yield ""
        yield from mention_lines(report, lang)
    yield from failure_lines(report, lang)


def _programs(report: Report, decisions: Decisions, layout: TextLayout) -> Iterator[str]:
    """Yield the programs, those together that share a verdict and its reasons, behind an empty line."""
    if not report.programs:
        return
    yield ""
    lang, _, verbose, *_ = layout
    yield layout.title(say("Programs, the worst first:") if len(report.programs) > 1 else say("Program:"))
    for group in program_groups(report.programs, decisions):
        names = [judged.program.title for judged in group]
        some = names if verbose else names[:_MOST_NAMES]
        more = f", +{len(names) - len(some)}" if len(names) > len(some) else ""
        line = visible(f"  {', '.join(some)}{more}")
        yield line if verbose else cut(line, LONGEST)
        most = max(group, key=lambda judged: judged.fixes)
        words = verdict_of(most)
        if most.verdict is not Verdict.NOT_JUDGED and any(judged.fixes != most.fixes for judged in group):
            words = say("at most: {verdict}", verdict=words)
        yield f"      {layout.paint(cut(visible(words.render(lang)), LONGEST), VERDICT_GRADES[most.verdict])}"
        reasons = list(reasons_of(group, decisions, whole=verbose))
        for reason in reasons if verbose else reasons[:_MOST_REASONS]:
            yield f"      {_reason_line(reason, layout)}"
        if len(reasons) > _MOST_REASONS and not verbose:
            yield f"      {say('... and {count} more', count=len(reasons) - _MOST_REASONS).render(lang)}"


def unresolved_lines(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield what was not read, each reason once, and what could not be resolved, behind an empty line."""
    unread = [*unread_reasons(report.programs)]
    unresolved = report.decisions.unresolved
    if not unread and not unresolved:
        return
    yield ""
    yield layout.title(say("What could not be read or resolved:"))
    most = None if layout.verbose else _MOST_UNREAD
    for words, places in unread[:most]:
        where = some_of(places, None if layout.verbose else _MOST_PLACES)
        line = f"{words.render(layout.lang)}: {where}"
        yield from layout.wrapped(visible(line), "  ", None if layout.verbose else _MOST_TEXT)
    if most is not None and len(unread) > most:
        yield f"  {say('... and {count} more', count=len(unread) - most).render(layout.lang)}"
    yield from lines_of_decisions(unresolved, layout, "manual", _MOST_UNRESOLVED)


def _reason_line(reason: Reason, layout: TextLayout) -> str:
    """Return what stands behind a verdict in one line: of a long way its two ends, or its end alone."""
    words, verbose = visible(reason.words.render(layout.lang)), layout.verbose
    steps = [visible(step) for step in reason.steps]
    if not steps:
        return words if verbose or reason.is_whole else cut(words, LONGEST)
    if verbose:
        return f"{words}: {' -> '.join(steps)}"
    lines = [f"{words}: {way}" for way in (_ends_of(steps), f"... -> {steps[-1]}")]
    return next((line for line in lines if display_width(line) <= LONGEST), cut(lines[-1], LONGEST))


def _ends_of(steps: Sequence[str]) -> str:
    """Return a way, of a long one its two ends."""
    return " -> ".join([steps[0], "...", steps[-1]] if len(steps) > _MOST_STEPS else steps)


def accepted_lines(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield the places that somebody has accepted as they are, behind an empty line."""
    if not report.accepted:
        return
    yield ""
    yield layout.title(say("Accepted as they are: {count}", count=len(report.accepted)))
    for finding in report.accepted:
        yield f"  {visible(str(finding.location))}"
        yield from layout.wrapped(visible(finding.message.render(layout.lang)), "      ")


def _left_alone(report: Report, lang: str) -> Iterator[str]:
    """Yield what torchferry changes itself, and what stays as it is, in a line each, behind an empty line."""
    counts = report.by_grade
    if counts[Grade.SAFE] or counts[Grade.NOTE]:
        yield ""
    if counts[Grade.SAFE]:
        files = len({each.location.path for each in report.findings if each.grade is Grade.SAFE})
        safe = say_plural("one safe fix", "{count} safe fixes", count=counts[Grade.SAFE])
        where = say_plural("one file", "{count} files", count=files)
        yield say("`torchferry migrate` makes {fixes} in {files}.", fixes=safe, files=where).render(lang)
    if counts[Grade.NOTE]:
        yield say_plural(
            "One note on a place that stays as it is (`-v` shows it).",
            "{count} notes on places that stay as they are (`-v` shows them).",
            count=counts[Grade.NOTE],
        ).render(lang)
