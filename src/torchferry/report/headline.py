"""The verdict of a report as a sentence, and what is left to be done as a phrase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

from torchferry.core.finding import Grade
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.programs.model import JudgedProgram, Obstacle, Verdict
from torchferry.report.decisions import ReportedDecision
from torchferry.report.model import ProjectVerdict, Report
from torchferry.report.programs import accepted_places, if_they_work, names_of, unresolved_places, waits_anyhow, work_of
from torchferry.report.since import Since
from torchferry.rules.file.unreadable_file import UnreadableFile

_MOST_NAMES = 3
"""Things that block which the verdict names; more are counted."""


def verdict_sentence(report: Report, *, is_brief: bool = False) -> Message:
    """Return the verdict: of programs that differ how many have which, else what holds for all of the project.

    Args:
        report: The report.
        is_brief: Whether the programs are below it, and what is to be done: where programs differ, what they lack
            is not named then, nor what is to be done.
    """
    work = work_and_unresolved(report)
    why = report.why_incomplete
    if report.since is not None:
        return _since(report, report.since, why, work)
    if why is not None:
        return _incomplete(report, why, work)
    if report.verdict is ProjectVerdict.BLOCKED:
        verdict = say("Blocked on {target} by {blockers}", target=report.target_title, blockers=_blockers(report))
    elif report.verdict not in (ProjectVerdict.PARTLY_BLOCKED, ProjectVerdict.INCOMPLETE, ProjectVerdict.MAY_NEED):
        return _ready(report, is_brief=is_brief)
    elif len(report.programs) > 1:
        verdict = _counted(report, is_brief=is_brief)
        if is_brief:
            unresolved = None if report.words.total else _unresolved(report)  # else the account of words counts them
            whole = verdict if unresolved is None else say("{first}; {second}", first=verdict, second=unresolved)
            return say("{verdict}.", verdict=whole)
    elif report.verdict is ProjectVerdict.INCOMPLETE:
        title = report.programs[0].program.title
        verdict = say(
            "Not judged for {target}: {program} reaches what was not read", target=report.target_title, program=title
        )
    else:
        (judged,) = report.programs
        verdict = say(
            "{program} may need {names}, which {target} lacks",
            program=judged.program.title,
            names=_things(judged.undecided),
            target=report.target_title,
        )
    return (
        say("{verdict}.", verdict=verdict)
        if work is None
        else say("{verdict}; to do: {work}.", verdict=verdict, work=work)
    )


def _since(report: Report, since: Since, why: Message | None, work: Message | None) -> Message:
    """Return what a change brings; nothing is said of what was there before."""
    files = say_plural("one changed file", "{count} changed files", count=len(since.changed))
    named = say("{revision} ({commit})", revision=since.revision, commit=since.commit[:10])
    if work is not None:
        sentence = say(
            "Since {named}, {files}: new for {target}: {work}",
            named=named,
            files=files,
            target=report.target_title,
            work=work,
        )
    elif why is not None:
        sentence = say(
            "Since {named}, {files}: not known for {target}", named=named, files=files, target=report.target_title
        )
    else:
        sentence = say(
            "Since {named}, {files}: nothing new for {target}", named=named, files=files, target=report.target_title
        )
    if why is not None:
        sentence = say("{first}; {second}", first=sentence, second=why)
    if since.gone:
        gone = say_plural("one place less to change", "{count} places less to change", count=since.gone)
        sentence = say("{first}; {second}", first=sentence, second=gone)
    return say("{verdict}.", verdict=sentence)


def work_and_unresolved(report: Report) -> Message | None:
    """Return what is to be done and how many places could not be resolved, as a phrase; None where there is nothing."""
    work, places = _work(report), _unresolved(report)
    return work or places if work is None or places is None else say("{first}; {second}", first=work, second=places)


def _unresolved(report: Report) -> Message | None:
    count = len(report.unresolved)
    if not count:
        return None
    return say_plural("one place could not be resolved", "{count} places could not be resolved", count=count)


def _counted(report: Report, *, is_brief: bool) -> Message:
    """Return how many programs have which verdict, the worst first."""
    by_verdict: dict[Verdict, list[JudgedProgram]] = {}
    for judged in report.programs:
        by_verdict.setdefault(judged.verdict, []).append(judged)
    return say(
        "{count} programs on {target}: {parts}",
        count=len(report.programs),
        target=report.target_title,
        parts=_in_a_row([*_parts(by_verdict, is_brief=is_brief)]),
    )


def _parts(by_verdict: dict[Verdict, list[JudgedProgram]], *, is_brief: bool) -> Iterator[Message]:
    blocked, unknown, undecided = (
        by_verdict.get(verdict, []) for verdict in (Verdict.BLOCKED, Verdict.NOT_JUDGED, Verdict.MAY_NEED)
    )
    if blocked and is_brief:
        yield say("{count} blocked", count=len(blocked))
    elif blocked:
        names = _things(each for judged in blocked for each in judged.blockers)
        yield say("{count} blocked by {names}", count=len(blocked), names=names)
    if unknown:
        yield say("{count} not judged", count=len(unknown))
    if undecided and is_brief:
        words = say("{count} may need what the card lacks", count=len(undecided))
        waits = any(map(waits_anyhow, undecided))
        yield say("{words} and wait for decisions", words=words) if waits else words
    elif undecided:
        names = _things(each for judged in undecided for each in judged.undecided)
        yield say("{count} may need {names}", count=len(undecided), names=names)
    good = [
        judged
        for verdict in (Verdict.DECISIONS, Verdict.FIXES, Verdict.WITHOUT, Verdict.READY)
        for judged in by_verdict.get(verdict, [])
    ]
    working = [judged for judged in good if work_of(judged) is not None]
    if working:
        yield say("{count} ready after fixes or decisions", count=len(working))
    if len(good) > len(working):
        yield say("{count} ready", count=len(good) - len(working))
    reserved = sum(judged.has_reservations for judged in good)
    if reserved:
        words = say("{count} of the ready ones with reservations", count=reserved)
        yield say("{words} ({what})", words=words, what=_reservations(good)) if is_brief else words


def _reservations(programs: Sequence[JudgedProgram]) -> Message:
    """Return what the verdicts of programs rest on."""
    kinds = []
    if any(judged.unresolved for judged in programs):
        kinds.append(say("unresolved places"))
    if any(judged.carriers for judged in programs):
        kinds.append(say("unverified code"))
    if any(judged.accepted for judged in programs):
        kinds.append(say("accepted places"))
    return _in_a_row(kinds)


def _in_a_row(phrases: Sequence[Message]) -> Message:
    row = phrases[0]
    for phrase in phrases[1:]:
        row = say("{first}, {second}", first=row, second=phrase)
    return row


def _things(obstacles: Iterable[Obstacle]) -> str:
    return names_of([f"`{obstacle.what}`" for obstacle in obstacles])


def _ready(report: Report, *, is_brief: bool) -> Message:
    """Return the verdict where nothing blocks, with what it rests on and what it leaves out."""
    apart = report.decisions.of_no_program if report.programs and not report.partial else ()
    work = _work_by_grade(report, apart) if apart else _work(report)
    unresolved, accepted = report.unresolved, report.accepted
    carriers = list(dict.fromkeys(name for judged in report.programs for name in judged.carriers))
    if work is None and not unresolved and not carriers and not accepted and not apart:
        return say("Ready for {target}: nothing has to change.", target=report.target_title)
    ready = (
        say("Ready for {target}", target=report.target_title)
        if work is None
        else say("Ready for {target} after {work}", target=report.target_title, work=work)
    )
    if unresolved:
        ready = say("{verdict}, except for {places}", verdict=ready, places=unresolved_places(len(unresolved)))
    if carriers and is_brief:
        ready = say("{verdict}, on unverified code", verdict=ready)
    elif carriers:
        ready = say("{verdict}, if {packages}", verdict=ready, packages=if_they_work(carriers))
    if accepted:
        places = accepted_places([each.decided_by for each in accepted])
        ready = say("{verdict}, with {places}", verdict=ready, places=places)
    if apart:
        ready = say_plural(
            "{verdict}; one decision that no program waits for",
            "{verdict}; {count} decisions that no program waits for",
            count=len(apart),
            verdict=ready,
        )
    return say("{verdict}.", verdict=ready)


def _incomplete(report: Report, why: Message, work: Message | None) -> Message:
    """Return the verdict where a file was not examined: the known facts about the rest, and that it is not all."""
    target = report.target_title
    if report.blockers:
        return say(
            "Blocked on {target} by {blockers}; {why}, where there may be more.",
            target=target,
            blockers=_blockers(report),
            why=why,
        )
    if report.all_unexamined or (report.without_code and work is None):
        return say("Not judged for {target}: {why}.", target=target, why=why)
    if work is None:
        return say("Not judged for {target}: {why}; the rest needs no change.", target=target, why=why)
    return say("Not judged for {target}: {why}; the rest needs {work}.", target=target, why=why, work=work)


def _blockers(report: Report) -> Message:
    names = list(dict.fromkeys(obstacle.what for judged in report.programs for obstacle in judged.blockers))
    if 0 < len(names) <= _MOST_NAMES:
        return say("{names}, which it lacks", names=", ".join(f"`{name}`" for name in names))
    count = len(names) or sum(each.blocks for each in report.decisions.all)
    return say_plural("one thing that it lacks", "{count} things that it lacks", count=count)


def _work(report: Report) -> Message | None:
    """Return what is to be done as one phrase; where findings were left out, what the programs need."""
    needing = [judged for judged in report.programs if judged.fixes or judged.decisions] if report.partial else []
    if not needing:
        return _work_by_grade(report)
    if len(report.programs) == 1:
        return work_of(needing[0])
    return say_plural(
        "changes in what {count} program reaches", "changes in what {count} programs reach", count=len(needing)
    )


def _work_by_grade(report: Report, apart: Container[ReportedDecision] = ()) -> Message | None:
    """Return what is to be done as one phrase, without some decisions; None when there is nothing."""
    grades = Counter(finding.grade for finding in report.findings)
    # an unreadable file is said by itself
    decisions = [each for each in report.decisions.to_decide if each.code != UnreadableFile.CODE and each not in apart]
    safe, unsafe = grades[Grade.SAFE], grades[Grade.UNSAFE]
    parts = []
    if safe:
        parts.append(say_plural("one safe fix", "{count} safe fixes", count=safe))
    if unsafe:
        parts.append(say_plural("one fix to read", "{count} fixes to read", count=unsafe))
    if decisions:
        phrase = say_plural("one decision", "{count} decisions", count=len(decisions))
        places = sum(len(each.places) for each in decisions)
        if places > len(decisions):
            phrase = say_in("work", "{decisions} in {count} places", decisions=phrase, count=places)
        parts.append(phrase)
    if len(parts) == 3:
        return say("{first}, {second} and {third}", first=parts[0], second=parts[1], third=parts[2])
    if len(parts) == 2:
        return say("{first} and {second}", first=parts[0], second=parts[1])
    return parts[0] if parts else None
