"""What the first screen of a report says: the programs by verdict, what to decide first, and what comes next."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import not_

from torchferry.core.finding import Grade
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.core.record import NamedTuple
from torchferry.programs.model import Judged, Obstacle, Verdict
from torchferry.report.decisions import Decisions, ReportedDecision
from torchferry.report.model import ProjectVerdict, Report
from torchferry.report.programs import accepted_places, if_they_work, names_of
from torchferry.report.reasons import WORST_FIRST

MOST_FIRST = 5
"""Decisions on the first screen."""

FEW = 3
"""Decisions below which none is named first: they all stand below."""


class ProgramClass(NamedTuple):
    """Programs whose verdicts say the same, and what they say."""

    verdict: Verdict
    words: Message
    programs: tuple[Judged, ...]


class NextStep(NamedTuple):
    """A command that comes next, and what it is for."""

    command: str
    purpose: Message


def program_classes(programs: Sequence[Judged]) -> Iterator[ProgramClass]:
    """Yield the programs by what their verdicts say, the worst first."""
    by_verdict: defaultdict[tuple[Verdict, bool, bool, bool], list[Judged]] = defaultdict(list)
    for judged in programs:
        may_run = judged.verdict not in (Verdict.BLOCKED, Verdict.NOT_JUDGED)
        carried, is_open, is_accepted = (
            may_run and bool(each) for each in (judged.carriers, judged.unresolved, judged.accepted)
        )
        by_verdict[judged.verdict, carried, is_open, is_accepted].append(judged)
    ordered = sorted(by_verdict, key=lambda key: (WORST_FIRST.index(key[0]), *map(not_, key[1:])))
    for verdict, carried, is_open, is_accepted in ordered:
        group = by_verdict[verdict, carried, is_open, is_accepted]
        words = _class_words(verdict, group)
        if is_open:
            words = say("{verdict}, except for unresolved places", verdict=words)
        if carried:
            carriers = list(dict.fromkeys(name for judged in group for name in judged.carriers))
            words = say("{verdict}, if {packages}", verdict=words, packages=if_they_work(carriers))
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
            return say_in("verdict", "not judged")
        case Verdict.MAY_NEED:
            return say("may need {names}", names=_things(each for judged in group for each in judged.undecided))
        case Verdict.DECISIONS:
            if all(len(judged.decisions) == len(judged.unresolved) for judged in group):
                fixes = any(judged.fixes for judged in group)
                return say_in("verdict", "ready after fixes") if fixes else say_in("verdict", "ready")
            return say_in("verdict", "ready after decisions")
        case Verdict.WITHOUT:
            names = _things(each for judged in group for each in judged.optional)
            return say("run without {names}", names=names)
        case Verdict.FIXES:
            return say_in("verdict", "ready after fixes")
        case Verdict.READY:
            return say_in("verdict", "ready")


def _things(obstacles: Iterable[Obstacle]) -> str:
    return names_of([obstacle.what for obstacle in obstacles])


def first_title(decisions: Decisions, first: Sequence[ReportedDecision]) -> Message:
    """Return the title above what to decide first, with how many programs then wait for nothing."""
    ready = decisions.ready_after(first)
    if not ready:
        return say("Decide first (of {all} decisions):", all=len(decisions.to_decide))
    return say_plural(
        "Decide first (of {all} decisions); {count} program then waits for none:",
        "Decide first (of {all} decisions); {count} programs then wait for none:",
        all=len(decisions.to_decide),
        count=ready,
    )


def decisions_title(decisions: Sequence[ReportedDecision]) -> Message:
    """Return the title above decisions: how many there are, in how many places, and how many block."""
    places = sum(len(each.places) for each in decisions)
    blocking = sum(each.blocks for each in decisions)
    title = say_plural("Decisions: one", "Decisions: {count}", count=len(decisions))
    if places > len(decisions):
        title = say("{decisions} in {count} places", decisions=title, count=places)
    if blocking:
        blocked = say_plural("one of them blocks", "{count} of them block", count=blocking)
        title = say("{decisions}; {blocked}", decisions=title, blocked=blocked)
    return title if len(decisions) == 1 else say("{decisions}; the worst first", decisions=title)


def asked(report: Report, paths: Sequence[str]) -> str:
    """Return the paths, the target and the style of a report, as a command takes them."""
    style = "" if report.style == "native" else f" --style {report.style}"
    return f"{' '.join(shlex.quote(path) for path in paths)} -t {report.target}{style}"


def next_steps(report: Report, decisions: Decisions, paths: Sequence[str]) -> Iterator[NextStep]:
    """Yield the commands that come next, for the paths that were named."""
    words = asked(report, paths)
    if report.by_grade[Grade.SAFE]:
        count = report.by_grade[Grade.SAFE]
        purpose = say_plural("makes the one safe fix", "makes the {count} safe fixes", count=count)
        yield NextStep(f"torchferry migrate {words}", purpose)
    first = decisions.first(1)
    if first and report.style == "native":
        shown = f"torchferry show {shlex.quote(first[0].id)} {words}"
        yield NextStep(shown, say("one decision with its code and its choices"))
    if report.findings:
        yield NextStep(f"torchferry scan {words} -v", say("each program with its reasons, and every place"))


def without_command(report: Report) -> Message | None:
    """Return what comes next where no command does; None where there is nothing to say."""
    if not report.files:
        return say("Next: name the folder of the project, or a file of it.")
    if report.verdict is ProjectVerdict.READY:
        return say("Next: nothing is to be done in the code.")
    if report.partial:
        return say("Next: scan the whole project; what these files reach stands in others.")
    return None
