"""A report as text to act on: a first screen with the verdict and what to decide first, then each thing once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchferry.core.finding import Grade
from torchferry.core.messages import cut, display_width, say, say_plural
from torchferry.core.terminal import unstyled, visible
from torchferry.programs.model import Verdict
from torchferry.report.decision_lines import (
    decision_lines,
    decision_rows,
    fix_lines,
    unresolved_line,
    whole_decisions,
)
from torchferry.report.decisions import Decisions
from torchferry.report.first_screen import (
    FEW,
    MOST_CLASSES,
    MOST_FIRST,
    ScreenDecisions,
    decisions_on_screen,
    first_decisions,
    further_steps,
    next_commands,
    program_counts,
    unverified_row,
)
from torchferry.report.full_format import (
    by_file,
    failure_lines,
    head_lines,
    mention_lines,
    package_lines,
    unexamined_lines,
)
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import Report
from torchferry.report.programs import VERDICT_GRADES, unexamined_message, verdict_of
from torchferry.report.reasons import Reason, program_groups, reasons_of, unread_reasons
from torchferry.report.text_layout import LONGEST, TextLayout, some_of

SCREEN = 24
"""Lines of a screen; at the end of a longer report its verdict stands once more."""

_TITLE = 2
"""Lines of the title of what there is to decide."""

_MOST_PLACES = 1
_MOST_NAMES = 3
_MOST_UNREAD = 3
_MOST_UNEXAMINED = 2
"""Lines that what nobody has verified takes, and what was not examined takes; with `-v` each has one."""

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
    brief = [*_verdict(report, layout, is_brief=len(report.programs) >= FEW)]
    yield from (layout.paint(line, "verdict") for line in brief)
    rows = sum(map(layout.rows, brief))
    for line in _below_verdict(report, layout, paths, SCREEN - rows):
        for part in layout.limited(line):
            yield part
            rows += layout.rows(unstyled(part))
    if rows >= SCREEN:  # a prompt behind it would push the first line off the screen
        yield ""
        yield from (layout.paint(line, "verdict") for line in _verdict(report, layout))


def _verdict(report: Report, layout: TextLayout, *, is_brief: bool = False) -> Iterator[str]:
    """Yield the verdict in lines; `is_brief` where the programs and what is to be done are below it."""
    verdict = verdict_sentence(report, is_brief=is_brief).render(layout.lang)
    return layout._replace(width=layout.width if layout.is_terminal else LONGEST).wrapped(verdict, "")


def _below_verdict(report: Report, layout: TextLayout, paths: Sequence[str], room: int) -> Iterator[str]:
    """Yield all lines but those of the verdict; `room` is how many rows the first screen has for them."""
    lang, paint, verbose, *_ = layout
    decisions = report.decisions
    head, commands = [*_head(report, layout)], [*next_commands(report, decisions.first(MOST_FIRST), paths, layout)]
    room -= sum(map(layout.rows, (*head, *commands))) + _TITLE
    for most in (MOST_CLASSES, 0, -1):  # where decisions have no room, programs are told in fewer lines
        counts = [*program_counts(report, layout, most)]
        shown = decisions_on_screen(report, room - len(counts), layout)
        if not shown.left:
            break
    yield from (*head, *counts)
    yield from first_decisions(report, shown, layout)
    yield from commands
    if verbose:
        yield from _behind_empty_line(_programs(report, decisions, layout))
        yield from unresolved_lines(report, layout)
        yield from decision_lines(decisions.to_decide, report.target, layout)
        yield from fix_lines(decisions.to_read, layout)
    else:
        yield from _behind_empty_line(_briefly(report, decisions, shown, layout, paths))
    yield from accepted_lines(report, layout)
    if verbose:
        yield from _behind_empty_line(_left_alone(report, layout))
        yield from _native(report, layout)
    yield from package_lines(report, lang, paint)
    if verbose:
        yield from unexamined_lines(report, lang, paint)
        yield from by_file(report.findings, lang, paint, verbose)
    if verbose and report.words.staying:
        yield ""
        yield from mention_lines(report, lang)
    yield from failure_lines(report, lang)


def _head(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield what was examined and assumed, in one line where it fits, and the account of the words."""
    examined, *others = head_lines(report, layout.lang)
    if len(report.programs) == 1:
        program = visible(report.programs[0].program.title)
        named = say("{examined}; program: {program}", examined=examined, program=program).render(layout.lang)
        examined = named if display_width(named) <= layout.width else examined
    remarks = [visible(remark.render(layout.lang)) for remark in report.remarks]
    for remark in remarks:
        together = f"{examined}{'。' if layout.lang == 'zh' else '. '}{remark}"
        if display_width(together) > layout.width:
            break
        examined, others = together, [each for each in others if each != remark]
    yield from (examined, *others)


def _briefly(
    report: Report, decisions: Decisions, shown: ScreenDecisions, layout: TextLayout, paths: Sequence[str]
) -> Iterator[str]:
    """Yield what is below the first screen of a short report, each kind in a line or two."""
    if len(report.programs) < FEW:
        yield from _programs(report, decisions, layout)
    unverified = unverified_row(report)
    if unverified is not None and len(report.programs) >= FEW:
        yield from layout.wrapped(visible(unverified.render(layout.lang)), "", _MOST_UNEXAMINED)
    if shown.left:
        count = len(shown.left)
        yield layout.title(say_plural("Further decisions: one", "Further decisions: {count}", count=count))
    yield from decision_rows(shown.left, report.target, layout)
    yield from unresolved_lines(report, layout)
    yield from fix_lines(decisions.to_read, layout)
    yield from _left_alone(report, layout)
    yield from _native(report, layout)
    if report.unexamined:
        names = [visible(unexamined_message(each).render(layout.lang)) for each in report.unexamined]
        separator = "；" if layout.lang == "zh" else "; "
        line = say("Not examined ({count}): {names}", count=len(names), names=separator.join(names))
        yield from layout.wrapped(line.render(layout.lang), "", _MOST_UNEXAMINED)
    for step in further_steps(report, paths):
        whole = say("All of it, {what}: {command}", what=step.purpose, command=visible(step.command))
        yield whole.render(layout.lang)


def _behind_empty_line(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines behind an empty one; nothing where there are none."""
    for number, line in enumerate(lines):
        if not number and line:
            yield ""
        yield line


def _native(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield what there is of CUDA C++, and the command that ports it: with `-v` file by file, after an empty line."""
    if report.native is None:
        return
    from torchferry.report.native import native_line, native_lines  # imported late: most projects have no C++

    if layout.verbose:
        yield ""
        yield from native_lines(report.native, layout.lang, True)
    elif report.native.command or report.native.kernels or report.native.items:
        yield visible(native_line(report.native).render(layout.lang))


def _programs(report: Report, decisions: Decisions, layout: TextLayout) -> Iterator[str]:
    """Yield the programs, those together that share a verdict and its reasons."""
    if not report.programs:
        return
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
    """Yield what was not read, each reason once, and what could not be resolved; with `-v` after an empty line."""
    unread = [*unread_reasons(report.programs)]
    unresolved = report.decisions.unresolved
    if not unread and not unresolved:
        return
    if layout.verbose:
        yield ""
    yield layout.title(say("What could not be read or resolved:"))
    most = None if layout.verbose else _MOST_UNREAD
    for words, places in unread[:most]:
        where = visible(some_of(places, None if layout.verbose else _MOST_PLACES))
        line = visible(words.render(layout.lang))
        yield from layout.wrapped(f"{line}: {where}", "  ", None, "      ")
    if most is not None and len(unread) > most:
        yield f"  {say('... and {count} more', count=len(unread) - most).render(layout.lang)}"
    if layout.verbose:
        yield from whole_decisions(unresolved, layout, "manual")
    else:
        yield from unresolved_line(unresolved, layout)


def _reason_line(reason: Reason, layout: TextLayout) -> str:
    """Return what follows a verdict in one line: of a long way its two ends, or its end alone."""
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
    """Yield the places that somebody has accepted as they are, after an empty line."""
    if not report.accepted:
        return
    yield ""
    yield layout.title(say("Accepted as they are: {count}", count=len(report.accepted)))
    for finding in report.accepted:
        yield f"  {visible(str(finding.location))}"
        yield from layout.wrapped(visible(finding.message.render(layout.lang)), "      ")


def _left_alone(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield what torchferry changes itself, and what stays as it is."""
    lang = layout.lang
    counts = report.by_grade
    parts = []
    if counts[Grade.SAFE]:
        files = len({each.location.path for each in report.findings if each.grade is Grade.SAFE})
        safe = say_plural("one safe fix", "{count} safe fixes", count=counts[Grade.SAFE])
        where = say_plural("one file", "{count} files", count=files)
        parts.append(say("`torchferry migrate` makes {fixes} in {files}.", fixes=safe, files=where))
    if counts[Grade.NOTE]:
        notes = say_plural(
            "One note on a place that stays as it is (`-v` shows it).",
            "{count} notes on places that stay as they are (`-v` shows them).",
            count=counts[Grade.NOTE],
        )
        parts.append(notes)
    if parts:
        width = layout.width if layout.is_terminal else LONGEST
        sentences = ("" if lang == "zh" else " ").join(part.render(lang) for part in parts)
        yield from layout._replace(width=width).wrapped(sentences, "")
