"""The first screen of a report: programs by verdict, what to decide first, the commands that come next.

What it says stands for itself, since a page says it too; the functions that take a layout write it as text.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import not_

from torchferry.core.finding import Grade
from torchferry.core.messages import Message, cut, display_width, say, say_in, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.programs.absent import FETCH
from torchferry.programs.model import Judged, Obstacle, Verdict
from torchferry.report.decision_lines import lines_of_decisions
from torchferry.report.decisions import ReportedDecision
from torchferry.report.model import ProjectVerdict, Report
from torchferry.report.programs import VERDICT_GRADES, WORST_FIRST, accepted_places, names_of
from torchferry.report.text_layout import LONGEST, TextLayout, as_many

FEW = 2
"""Programs that are counted by their verdicts; fewer are shown with their reasons."""

MOST_FIRST = 5
"""Decisions on the first screen."""

_MOST_TEXT = 4
"""Lines that the text of a decision takes there."""

_AROUND_FIRST = 3
"""Lines that stand with them beside the commands: their title, and an empty one before each."""

_MOST_BELOW = 3
"""Decisions that are not told first where there is one program: they stand directly below."""

_LONGEST_NAME = 32
"""Columns of the name of a program where there is no room for it."""

_MOST_CLASSES = 7
"""Lines of the programs by verdict."""


class ProgramClass(NamedTuple):
    """Programs that share a verdict and its reservations, and both in words."""

    verdict: Verdict
    words: Message
    programs: tuple[Judged, ...]


class NextStep(NamedTuple):
    """A command that comes next, and what it is for."""

    command: str
    purpose: Message


def program_counts(report: Report, layout: TextLayout, most: int = _MOST_CLASSES) -> Iterator[str]:
    """Yield how many programs have each verdict, the worst first, behind an empty line.

    Args:
        report: The report.
        layout: How they are written.
        most: How many lines tell verdicts apart by their reservations; where there were more, it is one for a verdict.
    """
    if len(report.programs) < FEW:  # it is shown below with its reasons
        return
    yield ""
    yield layout.title(say("Programs: {count}", count=len(report.programs)))
    for verdict, words, group in program_classes(report, most):
        begin = visible(f"{len(group):>5}  {words.render(layout.lang)}")
        titles = [visible(judged.program.title) for judged in group]
        names = as_many(titles, layout.width - display_width(begin) - 2)
        if not names:  # one is always named: the words before it are cut
            first = titles[0] if display_width(titles[0]) <= _LONGEST_NAME else f"...{titles[0][3 - _LONGEST_NAME :]}"
            names = first if len(titles) == 1 else f"{first}, +{len(titles) - 1}"
            begin = cut(begin, layout.width - display_width(names) - 2)
        yield layout.paint(f"{begin}: {names}", VERDICT_GRADES[verdict])
    unverified = unverified_row(report)
    if unverified is not None:
        yield layout.cut(visible(unverified.render(layout.lang)))


def unverified_row(report: Report) -> Message | None:
    """Return what programs rest on and nobody has verified; None for nothing."""
    carriers = [name for judged in report.programs for name in judged.carriers]
    return say("Unverified code that programs rest on: {names}", names=names_of(carriers)) if carriers else None


def program_classes(report: Report, most: int = _MOST_CLASSES) -> Iterator[ProgramClass]:
    """Yield the programs by what their verdicts say, the worst first; `most` is as for `program_counts`."""
    by_verdict: defaultdict[tuple[Verdict, bool, bool, bool], list[Judged]] = defaultdict(list)
    for judged in report.programs:
        may_run = judged.verdict not in (Verdict.BLOCKED, Verdict.NOT_JUDGED)
        reservations = (judged.unresolved, judged.carriers, judged.accepted)
        is_open, rests, is_accepted = (may_run and bool(each) for each in reservations)
        by_verdict[judged.verdict, is_open, rests, is_accepted].append(judged)
    are_many = len(by_verdict) > most
    if are_many:  # which reservations a program has is told with -v then
        reserved = {verdict for verdict, *reservations in by_verdict if any(reservations)}
        merged: defaultdict[tuple[Verdict, bool, bool, bool], list[Judged]] = defaultdict(list)
        for (verdict, *_), group in by_verdict.items():
            merged[verdict, verdict in reserved, False, False] += group
        by_verdict = merged
    for key in sorted(by_verdict, key=lambda key: (WORST_FIRST.index(key[0]), *map(not_, key[1:]))):
        (verdict, is_open, rests, is_accepted), group = key, by_verdict[key]
        words = _class_words(verdict, group)
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
        yield ProgramClass(verdict, words, tuple(group))


def _class_words(verdict: Verdict, group: Sequence[Judged]) -> Message:
    """Return what programs with one verdict have in common, as a phrase."""
    match verdict:
        case Verdict.BLOCKED:
            return say("blocked by {names}", names=_things(each for judged in group for each in judged.blockers))
        case Verdict.NOT_JUDGED:
            reason = next((unread.reason for judged in group for unread in judged.unread), None)
            return say_in("verdict", "not judged") if reason is None else say("not judged: {reason}", reason=reason)
        case Verdict.MAY_NEED:
            return say("may need {names}", names=_things(each for judged in group for each in judged.undecided))
        case Verdict.DECISIONS:
            if all(len(judged.decisions) == len(judged.unresolved) for judged in group):
                fixes = any(judged.fixes for judged in group)
                return say_in("verdict", "ready after fixes") if fixes else say_in("verdict", "ready")
            return say_in("verdict", "ready after decisions")
        case Verdict.WITHOUT:
            names = _things(each for judged in group for each in judged.optional)
            return say("ready without {names}", names=names)
        case Verdict.FIXES:
            return say_in("verdict", "ready after fixes")
        case Verdict.READY:
            return say_in("verdict", "ready")


def _things(obstacles: Iterable[Obstacle]) -> str:
    return names_of([obstacle.what for obstacle in obstacles])


class FirstDecisions(NamedTuple):
    """What to decide first, the worst on top.

    Attributes:
        decisions: The decisions.
        with_text: How many of them have their texts there; the others are named.
        text_lines: How many lines each of these texts takes.
    """

    decisions: tuple[ReportedDecision, ...]
    with_text: int
    text_lines: int

    def lines(self, layout: TextLayout) -> Iterator[str]:
        """Yield the decisions as text."""
        brief, others = layout._replace(verbose=False), self.decisions[self.with_text :]
        yield from lines_of_decisions(self.decisions[: self.with_text], brief, "manual", MOST_FIRST, self.text_lines)
        if others:
            ids = ", ".join(visible(each.id) for each in others)
            yield layout.cut(f"  {say('then {names}', names=ids).render(layout.lang)}")


def decisions_on_screen(report: Report, room: int, layout: TextLayout) -> FirstDecisions:
    """Return what to decide first: as much of it with its texts as the first screen has room for, at least one.

    None has its text there where all of them stand directly below.

    Args:
        report: The report.
        room: How many lines of the first screen are left, for them and for the commands.
        layout: How they are written.
    """
    first = report.decisions.first(MOST_FIRST)
    if not names_first(report):
        return FirstDecisions(first, 0, 0)
    room = room_for_first(report, room)
    several = ((count, lines) for lines in range(_MOST_TEXT, 1, -1) for count in range(len(first), 1, -1))
    for count, text_lines in (*several, *((1, lines) for lines in range(_MOST_TEXT, 1, -1))):
        chosen = FirstDecisions(first, count, text_lines)
        if sum(1 for _ in chosen.lines(layout)) <= room:
            return chosen
    return FirstDecisions(first, 1, 1)


def room_for_first(report: Report, room: int) -> int:
    """Return how many of the lines that are left of the first screen are for decisions; the others are for commands."""
    return room - _AROUND_FIRST - sum(1 for _ in next_steps(report, report.decisions.to_decide[:1], ()))


def names_first(report: Report) -> bool:
    """Whether decisions are named on the first screen: there are some, and they do not directly stand below."""
    count = len(report.decisions.to_decide)
    return bool(count) and (count >= _MOST_BELOW or len(report.programs) >= FEW)


def first_title(report: Report, first: Sequence[ReportedDecision]) -> Message:
    """Return the title above what to decide first, with how many programs then wait for nothing."""
    decisions = report.decisions
    ready, count = decisions.ready_after(first), len(decisions.to_decide)
    if not ready:
        return say("Decide first ({shown} of {all}):", shown=len(first), all=count)
    return say(
        "Decide first ({shown} of {all}); waiting programs that then wait for nothing: {count} of {waiting}",
        shown=len(first),
        all=count,
        count=ready,
        waiting=len(decisions.of_program),
    )


def first_text(report: Report, decision: ReportedDecision, lang: str) -> str:
    """Return what a decision is about, behind its id, which it need not begin with."""
    beginning = say("`{name}` on {target}: ", name=decision.id, target=report.target_title).render(lang)
    return decision.message.render(lang).removeprefix(beginning)


def first_decisions(report: Report, first: FirstDecisions, layout: TextLayout) -> Iterator[str]:
    """Yield what to decide first, behind an empty line; nothing where nothing is to be decided, or it stands below."""
    if not first.with_text:
        return
    yield ""
    yield layout.title(first_title(report, first.decisions))
    yield from first.lines(layout)


def asked(report: Report, paths: Sequence[str]) -> str:
    """Return the paths, the target and the style of a report, as a command takes them."""
    style = "" if report.style == "native" else f" --style {report.style}"
    return f"{' '.join(shlex.quote(path) for path in paths)} -t {report.target}{style}"


def next_steps(report: Report, first: Sequence[ReportedDecision], paths: Sequence[str]) -> Iterator[NextStep]:
    """Yield the commands that come next, for the paths that were named."""
    words = asked(report, paths)
    lacking = sum(any(FETCH in unread.reason.template for unread in judged.unread) for judged in report.programs)
    if lacking:
        folder = f" -C {shlex.quote(paths[0])}" if [*paths] not in ([], ["."]) else ""
        fetched = say_plural(
            "fetches the submodules that one program imports",
            "fetches the submodules that {count} programs import",
            count=lacking,
        )
        yield NextStep(FETCH.replace("git", f"git{folder}", 1), fetched)
    if report.by_grade[Grade.SAFE]:
        count = report.by_grade[Grade.SAFE]
        purpose = say_plural("makes the one safe fix, in place", "makes the {count} safe fixes, in place", count=count)
        yield NextStep(f"torchferry migrate {words}", purpose)
    if report.by_grade[Grade.UNSAFE]:
        count = report.by_grade[Grade.UNSAFE]
        shown = say_plural("shows the one fix to read too", "shows the {count} fixes to read too", count=count)
        yield NextStep(f"torchferry migrate {words} --unsafe-fixes --diff", shown)
    if first and report.style == "native":
        yield NextStep(
            f"torchferry show {shlex.quote(first[0].id)} {words}", say("one decision with its code and its choices")
        )
    if report.findings:
        yield NextStep(f"torchferry scan {words} -v", say("each program with its reasons, and every place"))


def without_command(report: Report) -> Message | None:
    """Return what comes next where no command does; None where there is nothing to say."""
    if not report.files or (report.without_code and not report.findings):
        return say("Next: name the folder of the project, or a file of it.")
    if report.verdict is ProjectVerdict.READY:
        return say("Next: nothing is to be done in the code.")
    if report.partial:
        return say("Next: scan the whole project; these files use code in other files.")
    return None


def next_commands(report: Report, first: Sequence[ReportedDecision], paths: Sequence[str], lang: str) -> Iterator[str]:
    """Yield the commands that come next as text, behind an empty line."""
    steps = [*next_steps(report, first, paths)]
    yield ""
    title = say("Next:").render(lang)
    for command, purpose in steps:
        yield cut(f"{title} {visible(command)}  # {purpose.render(lang)}", LONGEST)
        title = " " * display_width(title)
    alone = None if steps else without_command(report)
    if alone is not None:
        yield alone.render(lang)
