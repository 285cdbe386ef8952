"""The first screen of a report: programs by verdict, what to decide first, the commands that come next.

Its texts need no layout, since a page has them too; the functions that take a layout write it as text.
"""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import not_

from torchferry.core.finding import Grade
from torchferry.core.messages import Message, cut, display_width, say, say_in, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.programs.model import JudgedProgram, Obstacle, Verdict
from torchferry.report.choices import can_be_accepted
from torchferry.report.decision_lines import COUNTED_ANSWERS, DecisionRow, decision_row, text_of
from torchferry.report.decisions import Decisions, ReportedDecision, counted_decisions
from torchferry.report.model import ProjectVerdict, Report
from torchferry.report.programs import VERDICT_GRADES, WORST_FIRST, accepted_places, names_of, waits_anyhow
from torchferry.report.text_layout import LONGEST, TextLayout, as_many
from torchferry.rules.family import Subject
from torchferry.rules.registry import rule_facts

FEW = 2
"""Programs that are counted by their verdicts; fewer are shown with their reasons."""

MOST_FIRST = 5
"""Decisions that come first."""

_MOST_TEXT, _LEAST_TEXT = 4, 2
"""Lines that the text of a decision takes on the first screen; where there are fewer, it has none."""

_MOST_ROW = 2
"""Lines that a row of decisions takes there."""

_MOST_IN_LINE = 4
"""Decisions that share a line there."""

_BETWEEN_ROWS = ";  "
"""The text between rows that share a line."""

_LEAST_ROOM = 4
"""Lines of the first screen that the decisions have in any case."""

_LONGEST_NAME, _SHORTEST_NAME = 32, 16
"""Columns of the name of a program for which its verdict is said in fewer words, and of one that is never cut."""

_MOST_FETCHED = 2
"""Commands that fetch submodules among those that come next."""

_MOST_HIDDEN = 3
"""Hidden files that the command names which reads them, too."""

MOST_CLASSES = 7
"""Lines of the programs by verdict."""


class ProgramClass(NamedTuple):
    """Programs that share a verdict and its reservations, and both in words.

    Attributes:
        verdict: The verdict.
        words: It and its reservations.
        programs: The programs.
        briefly: The same in fewer words, for a line that is too short; None where there are none.
    """

    verdict: Verdict
    words: Message
    programs: tuple[JudgedProgram, ...]
    briefly: Message | None = None


class NextStep(NamedTuple):
    """A command that comes next, what it is for, and the same in ever fewer words."""

    command: str
    purpose: Message
    briefly: tuple[Message, ...] = ()


def program_counts(report: Report, layout: TextLayout, most: int = MOST_CLASSES) -> Iterator[str]:
    """Yield how many programs have each verdict, the worst first.

    Args:
        report: The report.
        layout: How they are written.
        most: How many lines tell verdicts apart by their reservations; where there were more, it is one for a verdict.
            Below 0 also those that are ready in one way or another share a line.
    """
    if len(report.programs) < FEW:  # it is shown below with its reasons
        return
    yield layout.title(say("Programs: {count}", count=len(report.programs)))
    classes = program_classes(report, most) if most >= 0 else _coarse_classes(report)
    for each in classes:
        titles = [visible(judged.program.title) for judged in each.programs]
        others = f", +{len(titles) - 1}" if len(titles) > 1 else ""
        begin = visible(f"{len(titles):>5}  {each.words.render(layout.lang)}")
        room = layout.width - len(f": {others}") - min(display_width(titles[0]), _LONGEST_NAME)
        if each.briefly is not None and display_width(begin) > room:
            begin = visible(f"{len(titles):>5}  {each.briefly.render(layout.lang)}")
        names = as_many(titles, layout.width - display_width(begin) - 2)
        if not names:  # one is always named, of a long name the end
            begin = cut(begin, layout.width - len(f": {others}") - min(display_width(titles[0]), _SHORTEST_NAME))
            left = layout.width - display_width(begin) - len(f": {others}")
            names = f"{titles[0] if display_width(titles[0]) <= left else f'...{titles[0][3 - left :]}'}{others}"
        yield layout.paint(f"{begin}: {names}", VERDICT_GRADES[each.verdict])


def unverified_row(report: Report) -> Message | None:
    """Return what programs rest on and nobody has verified; None for nothing."""
    carriers = [name for judged in report.programs for name in judged.carriers]
    return say("Unverified code that programs rest on: {names}", names=names_of(carriers)) if carriers else None


def program_classes(report: Report, most: int = MOST_CLASSES) -> Iterator[ProgramClass]:
    """Yield the programs by what their verdicts say, the worst first; `most` is as for `program_counts`."""
    by_verdict: defaultdict[tuple[Verdict, bool, bool, bool], list[JudgedProgram]] = defaultdict(list)
    for judged in report.programs:
        may_run = judged.verdict not in (Verdict.BLOCKED, Verdict.NOT_JUDGED)
        reservations = (judged.unresolved, judged.carriers, judged.accepted)
        is_open, rests, is_accepted = (may_run and bool(each) for each in reservations)
        by_verdict[judged.verdict, is_open, rests, is_accepted].append(judged)
    are_many = len(by_verdict) > most
    if are_many:  # which reservations a program has is told with -v then
        reserved = {verdict for verdict, *reservations in by_verdict if any(reservations)}
        merged: defaultdict[tuple[Verdict, bool, bool, bool], list[JudgedProgram]] = defaultdict(list)
        for (verdict, *_), group in by_verdict.items():
            merged[verdict, verdict in reserved, False, False] += group
        by_verdict = merged
    for key in sorted(by_verdict, key=lambda key: (WORST_FIRST.index(key[0]), *map(not_, key[1:]))):
        (verdict, is_open, rests, is_accepted), group = key, by_verdict[key]
        words = _class_words(verdict, group)
        briefly = _class_words_briefly(verdict, group)
        if is_open and are_many:
            reserved_ones = sum(each.has_reservations for each in group)
            words = say("{verdict}, {count} with reservations", verdict=words, count=reserved_ones)
        elif is_open:
            words = say("{verdict}, except for unresolved places", verdict=words)
        if rests:
            words = say("{verdict}, on unverified code", verdict=words)
        if is_accepted:
            # a place that several programs come to is one
            by = [each.by for each in dict.fromkeys(place for judged in group for place in judged.accepted)]
            words = say("{verdict}, with {places}", verdict=words, places=accepted_places(by))
        yield ProgramClass(verdict, words, tuple(group), briefly)


def _coarse_classes(report: Report) -> Iterator[ProgramClass]:
    """Yield the programs by verdict, those in one line that need no decision and are ready in one way or another."""
    good: dict[Verdict, ProgramClass] = {}
    for each in program_classes(report, 0):
        if each.verdict in (Verdict.WITHOUT, Verdict.FIXES, Verdict.READY):
            good[each.verdict] = each
        else:
            yield each
    if len(good) < FEW:
        yield from good.values()
        return
    words = say_in("verdict", "ready")
    everything = tuple(judged for each in reversed(good.values()) for judged in each.programs)
    fixed = sum(judged.fixes > 0 for judged in everything)
    if fixed:
        words = say("{verdict}, {count} after fixes", verdict=words, count=fixed)
    briefly = words
    if Verdict.WITHOUT in good:
        programs = good[Verdict.WITHOUT].programs
        names = _things(each for judged in programs for each in judged.optional)
        briefly = say("{verdict}, {count} without some packages", verdict=words, count=len(programs))
        words = say("{verdict}, {count} without using {names}", verdict=words, count=len(programs), names=names)
    reserved = sum(judged.has_reservations for judged in everything)
    if reserved:
        words, briefly = (
            say("{verdict}, {count} with reservations", verdict=each, count=reserved) for each in (words, briefly)
        )
    yield ProgramClass(Verdict.READY, words, everything, briefly)


def _class_words(verdict: Verdict, group: Sequence[JudgedProgram]) -> Message:
    """Return what programs with one verdict have in common, as a phrase."""
    match verdict:
        case Verdict.BLOCKED:
            return say("blocked by {names}", names=_things(each for judged in group for each in judged.blockers))
        case Verdict.NOT_JUDGED:
            reason = next((unread.reason for judged in group for unread in judged.unread), None)
            return say_in("verdict", "not judged") if reason is None else say("not judged: {reason}", reason=reason)
        case Verdict.MAY_NEED:
            needing = say("may need {names}", names=_things(each for judged in group for each in judged.undecided))
            if any(map(waits_anyhow, group)):
                return say("{verdict}, and wait for decisions", verdict=needing)
            return needing
        case Verdict.DECISIONS:
            if all(len(judged.decisions) == len(judged.unresolved) for judged in group):
                fixes = any(judged.fixes for judged in group)
                return say_in("verdict", "ready after fixes") if fixes else say_in("verdict", "ready")
            if any(judged.fixes for judged in group):
                return say_in("verdict", "ready after fixes and decisions")
            return say_in("verdict", "ready after decisions")
        case Verdict.WITHOUT:
            names = _things(each for judged in group for each in judged.optional)
            if any(judged.fixes for judged in group):
                return say("ready after fixes, without using {names}", names=names)
            return say("ready without using {names}", names=names)
        case Verdict.FIXES:
            return say_in("verdict", "ready after fixes")
        case Verdict.READY:
            return say_in("verdict", "ready")


def _class_words_briefly(verdict: Verdict, group: Sequence[JudgedProgram]) -> Message | None:
    """Return the same with less detail, where there is less; the rest of the report has what is left out."""
    if verdict is not Verdict.NOT_JUDGED:
        return None
    count = len({unread.place for judged in group for unread in judged.unread})
    return say_plural("not judged: one place was not read", "not judged: {count} places were not read", count=count)


def _things(obstacles: Iterable[Obstacle]) -> str:
    return names_of([obstacle.what for obstacle in obstacles])


class ScreenDecisions(NamedTuple):
    """What there is to decide as the first screen has it.

    Attributes:
        first: What to decide first: with it most programs wait for nothing.
        lines: The lines, without those of the title.
        left: The decisions that have no row of their own there.
    """

    first: tuple[ReportedDecision, ...]
    lines: tuple[str, ...]
    left: tuple[ReportedDecision, ...]


def decisions_on_screen(report: Report, room: int, layout: TextLayout) -> ScreenDecisions:
    """Return the decisions as the first screen has room for them, what to decide first on top.

    Where there is room, each has a row with its answers and its text below; else a row alone. Those with the same
    answers then share a row, and short rows a line; what still has no room is named.

    Args:
        report: The report.
        room: How many lines there are for them.
        layout: How they are written.
    """
    first = report.decisions.first(MOST_FIRST)
    ordered = (*first, *(each for each in report.decisions.to_decide if each not in first))
    brief = layout._replace(verbose=False)
    room = max(room, _LEAST_ROOM)
    for text_lines in range(_MOST_TEXT, _LEAST_TEXT - 1, -1) if 2 * len(ordered) <= room else ():
        lines = [*_with_texts(ordered, text_lines, report.target, brief)]
        if len(lines) <= room:
            return ScreenDecisions(first, tuple(lines), ())
    looked, rest = ordered[: room * _MOST_IN_LINE], ordered[room * _MOST_IN_LINE :]
    alone = [decision_row((each,), report.target, layout.lang) for each in looked]
    is_first = frozenset(each.id for each in first)
    grouped = _grouped(alone, is_first, report.target, brief)
    together = _together(grouped, brief, room)
    every: list[tuple[list[list[DecisionRow]], int | None]] = [
        ([[each] for each in alone], None),
        ([[each] for each in grouped], None),
        (together, None),
        (together, room - len(together)),
    ]
    for rows, further in every if not rest else ():
        lines = [*_in_lines(rows, brief, _MOST_ROW, further)] if len(rows) <= room else []
        if lines and len(lines) <= room:
            return ScreenDecisions(first, tuple(lines), ())
    rows, _ = every[-1]
    left = (*(each for line in rows[room - 1 :] for row in line for each in row.decisions), *rest)
    then = say("then {names}", names=", ".join(visible(each.id) for each in left[: MOST_FIRST * _MOST_IN_LINE]))
    shown = _in_lines(rows[: room - 1], brief, 1)
    return ScreenDecisions(first, (*shown, layout.cut(f"  {then.render(layout.lang)}")), left)


def _with_texts(
    decisions: Sequence[ReportedDecision], text_lines: int, target: str, layout: TextLayout
) -> Iterator[str]:
    """Yield each decision with its text in so many lines."""
    for each in decisions:
        yield from decision_row((each,), target, layout.lang, above_text=True).lines(layout, _MOST_ROW)
        yield from layout.wrapped(text_of(each, layout), "      ", text_lines)


def _grouped(rows: Iterable[DecisionRow], first: Container[str], target: str, layout: TextLayout) -> list[DecisionRow]:
    """Return rows of which those with the same answers are one, in the order of their first ones.

    So many share a row that their ids leave room for the answers. What stops programs shares no row with others, and
    what comes first (`first` has the ids) beside nothing that does not.
    """
    groups: list[list[DecisionRow]] = []
    last: dict[tuple[object, ...], list[DecisionRow]] = {}
    for row in rows:
        (decision,) = row.decisions
        alike = decision.id in first, bool(decision.stopped), bool(decision.undecided), decision.effect, row.answers
        group = last.get(alike)
        if group is None or display_width(", ".join(each.names for each in (*group, row))) > layout.width // 2:
            group = last[alike] = []
            groups.append(group)
        group.append(row)
    return [
        group[0]
        if len(group) == 1
        else decision_row([each for row in group for each in row.decisions], target, layout.lang)
        for group in groups
    ]


def _together(rows: Sequence[DecisionRow], layout: TextLayout, room: int) -> list[list[DecisionRow]]:
    """Return the rows of each line: from the last one on, short ones share a line until there is room for all."""
    lines = [[row] for row in rows]
    for number in range(len(lines) - 1, 0, -1):
        if len(lines) <= room:
            break
        last, *others = lines[number]
        for earlier in reversed(lines[:number]):
            if (
                not others
                and sum(row.columns for row in (*earlier, last)) + len(_BETWEEN_ROWS) * len(earlier) <= layout.width
            ):
                earlier.append(last)
                del lines[number]
                break
    return lines


def _in_lines(
    lines: Iterable[Sequence[DecisionRow]], layout: TextLayout, most: int, further: int | None = None
) -> Iterator[str]:
    """Yield rows as text: those that are too long for a line take several.

    Args:
        lines: The rows of each line.
        layout: How they are written.
        most: How many lines a row takes.
        further: How many lines there may be besides one for each; None: as many as they take.
    """
    for rows in lines:
        if len(rows) > 1:
            alone = layout._replace(width=LONGEST)
            yield _BETWEEN_ROWS.join(row._replace(places=()).line(alone).strip() for row in rows).join(("  ", ""))
            continue
        taken = rows[0].lines(layout, most if further is None else min(most, further + 1))
        yield from taken
        if further is not None:
            further -= len(taken) - 1


def first_title(report: Report, first: Sequence[ReportedDecision]) -> Message:
    """Return the title above what to decide first, with how many programs then wait for nothing."""
    decisions = report.decisions
    ready, count = decisions.ready_after(first), len(decisions.to_decide)
    if not ready:
        return say("Decide first ({shown} of {all}):", shown=len(first), all=count)
    title = say(
        "Decide first ({shown} of {all}); waiting programs that then wait for nothing: {count} of {waiting}",
        shown=len(first),
        all=count,
        count=ready,
        waiting=len(decisions.of_program),
    )
    return _with_installation(decisions, first, title)


def first_text(report: Report, decision: ReportedDecision, lang: str) -> str:
    """Return what a decision is about, behind its id, which it need not begin with."""
    beginning = say("`{name}` on {target}: ", name=decision.id, target=report.target_title).render(lang)
    return decision.message.render(lang).removeprefix(beginning)


def first_decisions(report: Report, shown: ScreenDecisions, layout: TextLayout) -> Iterator[str]:
    """Yield what there is to decide, after an empty line; nothing where nothing is."""
    if not shown.lines:
        return
    yield ""
    titles = [each.render(layout.lang) for each in _titles(report, shown)]
    fitting = next((each for each in titles if display_width(each) <= layout.width), layout.cut(titles[-1]))
    yield layout.paint(fitting, "path")
    yield from shown.lines


def _titles(report: Report, shown: ScreenDecisions) -> Iterator[Message]:
    """Yield the title above the decisions, with what the first ones free, and then the same in fewer words."""
    decisions, first = report.decisions, shown.first
    counted = counted_decisions(decisions.to_decide)
    if report.programs and decisions.to_decide and not decisions.of_program:
        apart = len(decisions.of_no_program)
        if apart == len(decisions.to_decide):
            counted = say("{decisions} that no program waits for", decisions=counted)
        elif apart:
            counted = say("{decisions}; {count} that no program waits for", decisions=counted, count=apart)
    titles = [say("{decisions}, each with its answers", decisions=counted), counted]
    if any(COUNTED_ANSWERS in line for line in shown.lines):
        titles.insert(
            0, say("{decisions}, each with its answers (+1: `torchferry show` has one more)", decisions=counted)
        )
    elif any(can_be_accepted(each) for each in decisions.to_decide):
        titles.insert(0, say("{decisions}, each with its answers (accept: leave it as it is)", decisions=counted))
    ready = decisions.ready_after(first)
    if not ready or len(first) >= len(decisions.to_decide):
        yield from titles
        return
    freed = say_plural(
        "programs freed by the first one: {ready} of {waiting}",
        "programs freed by the first {count}: {ready} of {waiting}",
        count=len(first),
        ready=ready,
        waiting=len(decisions.of_program),
    )
    freed = _with_installation(decisions, first, freed)
    titles.append(say_plural("Decisions: one", "Decisions: {count}", count=len(decisions.to_decide)))
    yield from (say("{decisions}; {freed}", decisions=title, freed=freed) for title in titles)


def _with_installation(decisions: Decisions, first: Sequence[ReportedDecision], freed: Message) -> Message:
    """Return what the first decisions free, with those of the installation, which all programs need."""
    of_installation = [
        each.id for each in decisions.to_decide if each not in first and not each.programs and each.is_of_installation
    ]
    if not of_installation:
        return freed
    if len(of_installation) == 1:
        return say("{freed}, once {name} is settled too", freed=freed, name=of_installation[0])
    return say_plural(
        "{freed}, once {count} of the installation is settled too",
        "{freed}, once {count} of the installation are settled",
        freed=freed,
        count=len(of_installation),
    )


def asked(report: Report, paths: Sequence[str]) -> str:
    """Return the paths, the target and the style of a report, as a command takes them."""
    style = "" if report.style == "native" else f" --style {report.style}"
    return f"{' '.join(shlex.quote(path) for path in paths)} -t {report.target}{style}"


def next_steps(report: Report, first: Sequence[ReportedDecision], paths: Sequence[str]) -> Iterator[NextStep]:
    """Yield the commands that come next, for the paths that were named."""
    words = asked(report, paths)
    commands = [_values_of_unread(judged, "command") for judged in report.programs]
    lacking = sum(bool(each) for each in commands)
    for command in [*dict.fromkeys(command for each in commands for command in each)][:_MOST_FETCHED]:
        folder = f" -C {shlex.quote(paths[0])}" if [*paths] not in ([], ["."]) else ""
        fetched = say_plural(
            "fetches the submodules that one program imports",
            "fetches the submodules that {count} programs import",
            count=lacking,
        )
        yield NextStep(command.replace("git", f"git{folder}", 1), fetched)
    hidden = [*dict.fromkeys(path for each in report.programs for path in _values_of_unread(each, "hidden"))]
    if hidden:
        folder = paths[0] if paths else "."
        more = (os.path.normpath(os.path.join(folder, path)) for path in hidden[:_MOST_HIDDEN])
        named = asked(report, [*(paths or [folder]), *more])
        yield NextStep(f"torchferry scan {named}", say("reads what .gitignore hides"))
    if report.by_grade[Grade.SAFE]:
        count = report.by_grade[Grade.SAFE]
        purpose = say_plural("makes the one safe fix, in place", "makes the {count} safe fixes, in place", count=count)
        brief = say_plural("makes the one safe fix", "makes the {count} safe fixes", count=count)
        yield NextStep(f"torchferry migrate {words}", purpose, (brief,))
    if report.by_grade[Grade.UNSAFE]:
        count = report.by_grade[Grade.UNSAFE]
        shown = say_plural("shows the fix to read", "shows the {count} fixes to read", count=count)
        yield NextStep(f"torchferry migrate {words} --unsafe-fixes --diff", shown)
    if (
        report.native is not None
        and report.native.command
        and any(rule_facts(each.code).about is Subject.COMPILED for each in first)
    ):
        yield NextStep(report.native.command, say("ports the CUDA C++"))
    if first and report.style == "native":
        yield NextStep(f"torchferry show {shlex.quote(first[0].id)} {words}", say("its code and its answers"))


def _values_of_unread(judged: JudgedProgram, name: str) -> tuple[str, ...]:
    """Return what the reasons why a program is not judged say of this name: a command that fetches what it imports."""
    values = (dict(unread.reason.values).get(name) for unread in judged.unread)
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str)))


def card_step(report: Report) -> Iterator[NextStep]:
    """Yield the command that comes next on the machine with the card, where a project has programs."""
    if report.programs and not report.partial and report.since is None:
        yield NextStep(
            f"torchferry doctor -t {report.target}",
            say("on the machine with the card, before the first run: what to install there"),
            (say("on the card's machine: what to install"),),
        )


def further_steps(report: Report, paths: Sequence[str]) -> Iterator[NextStep]:
    """Yield the command that shows all there is, where the report leaves something out."""
    if report.findings:
        whole = say("each program with its reasons, and every place")
        yield NextStep(f"torchferry scan {asked(report, paths)} -v", whole)


def without_command(report: Report) -> Message | None:
    """Return what comes next where no command does; None where there is nothing to say."""
    if not report.files or (report.without_code and not report.findings):
        return say("Next: name the folder of the project, or a file of it.")
    if report.verdict is ProjectVerdict.READY:
        return say("Next: nothing is to be done in the code.")
    if report.partial:
        return say("Next: scan the whole project; these files use code in other files.")
    return None


def next_commands(
    report: Report, first: Sequence[ReportedDecision], paths: Sequence[str], layout: TextLayout
) -> Iterator[str]:
    """Yield the commands that come next as text, after an empty line."""
    lang = layout.lang
    steps = [*next_steps(report, first, paths)]
    alone = None if steps else without_command(report)
    on_card = [*card_step(report)]
    if report.since is not None and not steps:  # a remark says what it leaves out
        return
    if not steps and alone is None:  # what could not be resolved is all there is
        steps = [*further_steps(report, paths)]
    yield ""
    title = say("Next:").render(lang)
    if alone is not None:
        yield alone.render(lang)
        title = " " * display_width(title)
    for step in (*steps, *on_card):
        line = f"{title} {visible(step.command)}"
        room = layout.width - display_width(f"{line}  # ")
        purposes = (each.render(lang) for each in (step.purpose, *step.briefly))
        about = next((words for words in purposes if display_width(words) <= room), "")  # a command is never cut
        yield cut(f"{line}  # {about}" if about else line, LONGEST)
        title = " " * display_width(title)
