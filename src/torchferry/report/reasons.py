"""What follows the verdicts of programs, and which programs share it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.programs.model import JudgedProgram, Obstacle, Reachability
from torchferry.report.decisions import Decisions, slug
from torchferry.report.programs import WORST_FIRST, circumstance_of, names_of, settled_lines, source_of, steps_of

_SUBJECTS = ("module", "text")
"""Values of reasons that say what they speak of."""

_MOST_SUBJECTS = 3


class Reason(NamedTuple):
    """What follows a verdict.

    Attributes:
        words: What it is.
        steps: The way there; empty where there is none.
        is_whole: Whether it is never cut: what a run said.
        decisions: The ids of the decisions that it is about.
    """

    words: Message
    steps: tuple[str, ...] = ()
    is_whole: bool = False
    decisions: tuple[str, ...] = ()


def program_groups(programs: Sequence[JudgedProgram], decisions: Decisions) -> list[list[JudgedProgram]]:
    """Return the programs, the worst first, those together that share a verdict and its reasons."""
    groups: defaultdict[object, list[JudgedProgram]] = defaultdict(list)
    for judged in programs:
        lacking = tuple(frozenset(each.what for each in some) for some in (judged.blockers, judged.undecided))
        waits = decisions.of_program.get(judged.program.title, ())
        unread = tuple(each.place for each in judged.unread)
        run = None if judged.settled is None else judged.program.title
        accepted = tuple(each.by for each in judged.accepted)
        groups[judged.verdict, lacking, waits, judged.carriers, accepted, unread, run].append(judged)
    return sorted(groups.values(), key=lambda group: WORST_FIRST.index(group[0].verdict))


def reasons_of(group: Sequence[JudgedProgram], decisions: Decisions, *, whole: bool) -> Iterator[Reason]:
    """Yield what follows the verdict of programs that share it, each thing once, as the first one has it.

    Args:
        group: The programs.
        decisions: The decisions of the report.
        whole: Whether all names and conditions are told, or some of them and the number of the others.
    """
    shown: dict[tuple[str, Reachability], None] = {}
    needed = decisions.of_program.get(group[0].program.title, ())
    for unread in dict.fromkeys(each for judged in group for each in judged.unread):
        yield Reason(unread.reason, (*map(str, unread.chain), unread.place))
    for judged in group:
        if judged.settled is not None:
            yield from (Reason(message, is_whole=True) for message in settled_lines(judged.settled))
        for obstacle in (*judged.blockers, *judged.builds, *judged.doubts, *judged.optional, *judged.alternatives):
            if (obstacle.what, obstacle.call_path.reachability) not in shown:
                shown[obstacle.what, obstacle.call_path.reachability] = None
                how = _how(judged, obstacle, whole=whole)
                words = say("{what}, {circumstance}", what=obstacle.what, circumstance=how)
                about = tuple(each for each in needed if each == slug(obstacle.what))
                yield Reason(words, steps_of(obstacle), decisions=about)
    things = {slug(name) for name, _ in shown}
    waits = tuple(each for each in needed if each not in things)
    if waits:
        names = ", ".join(waits) if whole else names_of(waits)
        yield Reason(say("waits for {names}", names=names), decisions=waits)
    unverified = list(dict.fromkeys(item.package for judged in group for item in judged.unverified))
    if unverified:
        names = ", ".join(unverified) if whole else names_of(unverified)
        yield Reason(say("nobody has verified on this card: {names}", names=names))


def unread_reasons(programs: Sequence[JudgedProgram]) -> Iterator[tuple[Message, tuple[str, ...]]]:
    """Yield why something was not read that programs reach, and how many, each reason once with its places.

    Reasons that differ only in the module, or in the code, that they speak of are one.
    """
    places: defaultdict[Message, dict[str, None]] = defaultdict(dict)
    reaching: defaultdict[Message, set[str]] = defaultdict(set)
    subjects: defaultdict[Message, dict[str, None]] = defaultdict(dict)
    for judged in programs:
        for unread in judged.unread:
            reason, subject = _without_subject(unread.reason)
            subjects[reason] |= subject
            places[reason][unread.place] = None
            reaching[reason].add(judged.program.title)
    for reason, names in reaching.items():
        whole = _with_subjects(reason, [*subjects[reason]])
        reached = say_plural("one program reaches it", "{count} programs reach it", count=len(names))
        yield say("{reached}: {reason}", reached=reached, reason=whole), tuple(places[reason])


def _without_subject(reason: Message) -> tuple[Message, dict[str, None]]:
    """Return a reason without what it speaks of, and that."""
    values = tuple((name, "" if name in _SUBJECTS else value) for name, value in reason.values)
    return reason._replace(values=values), {str(value): None for name, value in reason.values if name in _SUBJECTS}


def _with_subjects(reason: Message, subjects: Sequence[str]) -> Message:
    shown = [*subjects[:_MOST_SUBJECTS], *(["..."] if len(subjects) > _MOST_SUBJECTS else [])]
    between = "`, `" if "`{module}`" in reason.template else ", "
    filled = ((name, between.join(shown) if name in _SUBJECTS else value) for name, value in reason.values)
    return reason._replace(values=tuple(filled))


def _how(judged: JudgedProgram, obstacle: Obstacle, *, whole: bool) -> Message:
    """Return how surely a program comes to what the target lacks, or what is needed in its place."""
    if obstacle in judged.blockers:
        return source_of(obstacle)
    if obstacle in judged.builds:
        return say("another build is needed")
    if obstacle in judged.doubts:
        return say("to be checked")
    how = circumstance_of(obstacle, most=None if whole else 1)
    start = judged.program.start_with(obstacle.call_path.options)
    return how if start is None else say("{circumstance}, as {place} starts it", circumstance=how, place=start.place)
