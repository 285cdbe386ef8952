"""How the programs of a report are told: the verdict of each in words, and the way to what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.programs.model import (
    CallPath,
    JudgedProgram,
    Obstacle,
    Reachability,
    RehearsedVerdict,
    Source,
    Step,
    Unexamined,
    Unread,
    Verdict,
)

VERDICT_GRADES = {
    Verdict.READY: "safe",
    Verdict.FIXES: "safe",
    Verdict.WITHOUT: "safe",
    Verdict.DECISIONS: "unsafe",
    Verdict.MAY_NEED: "unsafe",
    Verdict.BLOCKED: "manual",
    Verdict.NOT_JUDGED: "manual",
}
"""The grade whose colour each verdict has in a report."""

WORST_FIRST = (
    Verdict.BLOCKED,
    Verdict.NOT_JUDGED,
    Verdict.MAY_NEED,
    Verdict.DECISIONS,
    Verdict.WITHOUT,
    Verdict.FIXES,
    Verdict.READY,
)
"""The verdicts in the order of a report."""

_MOST_NAMES = 3
_LONGEST_CONDITION = 40
"""Characters of a condition in a short report."""

_READY = (Verdict.READY, Verdict.FIXES, Verdict.DECISIONS)
"""Verdicts of programs that need no more than work."""


def verdict_of(judged: JudgedProgram) -> Message:
    """Return the verdict of a program as a phrase: `ready after 12 fixes`, `blocked by nvidia.dali`."""
    if judged.settled is not None and judged.settled.decides:
        return say("{verdict}, settled by a rehearsal", verdict=_verdict(judged))
    return _verdict(judged)


def _verdict(judged: JudgedProgram) -> Message:
    verdict = _resolved_verdict(judged)
    if judged.verdict is Verdict.NOT_JUDGED:
        return verdict
    if judged.unresolved:
        verdict = say(
            "{verdict}, except for {places}", verdict=verdict, places=unresolved_places(len(judged.unresolved))
        )
    if judged.carriers and judged.verdict is not Verdict.BLOCKED:
        verdict = say("{verdict}, if {packages}", verdict=verdict, packages=if_they_work(judged.carriers))
    if judged.accepted and judged.verdict is not Verdict.BLOCKED:
        places = accepted_places([each.by for each in judged.accepted])
        verdict = say("{verdict}, with {places}", verdict=verdict, places=places)
    return verdict


def if_they_work(packages: Sequence[str]) -> Message:
    """Return what a verdict rests on, as a phrase: packages that work on the card, which nobody has verified."""
    return say("it can rely on {names} there, which nobody has verified", names=names_of(packages))


def accepted_places(names: Sequence[str]) -> Message:
    """Return how many places people have accepted, as a phrase; `names` has for each place who it was."""
    return say_plural(
        "one place accepted by {names}",
        "{count} places accepted by {names}",
        count=len(names),
        names=", ".join(dict.fromkeys(names)),
    )


def unresolved_places(count: int) -> Message:
    """Return how many places could not be resolved, as a phrase."""
    return say_plural("one place that could not be resolved", "{count} places that could not be resolved", count=count)


def _resolved_verdict(judged: JudgedProgram) -> Message:
    """Return the verdict of what could be resolved."""
    work = work_of(judged)
    if judged.verdict is Verdict.READY or (judged.unresolved and work is None and judged.verdict in _READY):
        return say_in("verdict", "ready")
    if judged.verdict is Verdict.NOT_JUDGED:
        return say("not judged: it reaches what was not read")
    if judged.verdict is Verdict.BLOCKED:
        blocked = say("blocked by {names}", names=_names(judged.blockers))
        return say("{verdict}; also {work}", verdict=blocked, work=work) if work is not None else blocked
    if judged.verdict is Verdict.MAY_NEED:
        needing = say("may need {names}", names=_names(judged.undecided))
        return say("{verdict}; also {work}", verdict=needing, work=work) if work is not None else needing
    if judged.verdict is Verdict.WITHOUT:
        without = say("ready without using {names}", names=_names(judged.optional))
        return say("{verdict}, after {work}", verdict=without, work=work) if work is not None else without
    return say("ready after {work}", work=work) if work is not None else say("ready after decisions")


def _names(obstacles: tuple[Obstacle, ...]) -> str:
    return names_of([obstacle.what for obstacle in obstacles])


def names_of(things: Sequence[str]) -> str:
    """Return some names in one phrase, each once; the last of many are counted."""
    names = list(dict.fromkeys(things))
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown}, +{len(names) - _MOST_NAMES}"


def work_of(judged: JudgedProgram) -> Message | None:
    """Return what has to change in what a program reaches, as a phrase; None where nothing has.

    Places that could not be resolved are told apart.
    """
    fixes, decisions = judged.fixes, len(judged.decisions) - len(judged.unresolved)
    fix = say_plural("one fix", "{count} fixes", count=fixes)
    decide = say_plural("one place to decide", "{count} places to decide", count=decisions)
    if fixes and decisions:
        return say("{first} and {second}", first=fix, second=decide)
    return fix if fixes else decide if decisions else None


def waits_anyhow(judged: JudgedProgram) -> bool:
    """Whether a program waits for decisions whatever it may need."""
    return len(judged.decisions) > len(judged.unresolved)


def shared_conditions(call_paths: Sequence[tuple[str, Obstacle]]) -> list[str]:
    """Return what all of several ways hang on; nothing where there is one way."""
    if len(call_paths) < 2:
        return []
    return [
        each
        for each in call_paths[0][1].call_path.conditions
        if all(each in other.call_path.conditions for _, other in call_paths[1:])
    ]


def own_circumstance(obstacle: Obstacle, shared: Sequence[str]) -> Message | None:
    """Return what makes an obstacle necessary or not beside the conditions that all ways share; None for nothing."""
    own = tuple(each for each in obstacle.call_path.conditions if each not in shared)
    if not own and obstacle.call_path.conditions:
        return None
    return circumstance_of(obstacle._replace(call_path=obstacle.call_path._replace(conditions=own)))


def chain_of(obstacle: Obstacle) -> str:
    """Return the way to an obstacle: `train.py:12 -> data/pipeline.py:3`; its place alone where no way is told."""
    return " -> ".join(steps_of(obstacle))


def steps_of(obstacle: Obstacle) -> tuple[str, ...]:
    """Return the steps of the way to an obstacle; its place alone where no way is told."""
    return tuple(map(str, obstacle.call_path.steps or (Step(obstacle.place.path, obstacle.place.line),)))


def unread_chain(unread: Unread) -> str:
    """Return the way to what was not read."""
    return " -> ".join((*map(str, unread.chain), unread.place))


def source_of(obstacle: Obstacle) -> Message:
    """Return where it is known from that the target lacks something."""
    match obstacle.source:
        case Source.CODE:
            return say("which the project compiles")
        case Source.TABLE:
            return say("as torchferry's tables say")
        case Source.ENVIRONMENT:
            return say("as it is installed")


def unexamined_message(unexamined: Unexamined) -> Message:
    """Return what was not looked at, why, and how much of CUDA it speaks."""
    place = say("the project's own folder") if unexamined.place == "." else unexamined.place
    subject = say("{place}: {reason}", place=place, reason=unexamined.reason) if unexamined.place else unexamined.reason
    if not unexamined.files or not unexamined.place:
        return subject
    if unexamined.words is None:
        return say("{what}; files: {files}", what=subject, files=unexamined.files)
    return say(
        "{what}; files: {files}, CUDA words: {words}", what=subject, files=unexamined.files, words=unexamined.words
    )


def circumstance_of(obstacle: Obstacle, most: int | None = None) -> Message:
    """Return what makes an obstacle necessary or not.

    Args:
        obstacle: What the target lacks.
        most: How many conditions are told, shortened, with the number of the others; None for all as they are.
    """
    call_path = obstacle.call_path
    if call_path.reachability is Reachability.OPTION and call_path.options:
        return say("only with {options}", options=", ".join(f"`{option}`" for option in call_path.options))
    if call_path.reachability is Reachability.GUARDED:
        return say("the code goes on without it")
    if not call_path.steps:
        return say("perhaps: too many paths lead there to follow them all")
    if call_path.conditions:
        shown = call_path.conditions if most is None else tuple(_brief(each) for each in call_path.conditions[:most])
        more = f"; +{len(call_path.conditions) - len(shown)}" if len(shown) < len(call_path.conditions) else ""
        return say("only where {conditions}", conditions="; ".join(shown) + more)
    return say_in("need", "always")


def _brief(condition: str) -> str:
    """Return a condition, of a long one its place and how it begins."""
    text, mark, place = condition.rpartition(" (")
    if not mark or len(text) <= _LONGEST_CONDITION:
        return condition
    return f"{text[:_LONGEST_CONDITION]}...{mark}{place}"


def lines_of(judged: JudgedProgram) -> Iterator[Message]:
    """Yield what there is to know of a program below its verdict."""
    if judged.settled is not None:
        yield from settled_lines(judged.settled)
    for obstacle in judged.blockers:
        yield say(
            "needs {what}, {source}: {chain}", what=obstacle.what, source=source_of(obstacle), chain=chain_of(obstacle)
        )
    for build in judged.builds:
        yield say("needs another build, {what}: {chain}", what=build.what, chain=chain_of(build))
    for doubt in judged.doubts:
        yield say("check {what}, {source}: {chain}", what=doubt.what, source=source_of(doubt), chain=chain_of(doubt))
    alike: dict[tuple[str, CallPath], list[Obstacle]] = {}  # one call after another behind the same option is told once
    for obstacle in (*judged.optional, *judged.alternatives):
        alike.setdefault((obstacle.what, obstacle.call_path._replace(steps=())), []).append(obstacle)
    for first, *others in alike.values():
        circumstance = circumstance_of(first)
        start = judged.program.start_with(first.call_path.options)
        if start is not None:
            circumstance = say("{circumstance}, as {place} starts it", circumstance=circumstance, place=start.place)
        if others:
            circumstance = say("{circumstance} (places: {count})", circumstance=circumstance, count=len(others) + 1)
        yield say("{what}, {circumstance}: {chain}", what=first.what, circumstance=circumstance, chain=chain_of(first))
    if judged.unverified:
        names = ", ".join(item.package for item in judged.unverified)
        yield say("nobody has verified on this card: {names}", names=names)
    for unread in judged.unread:
        yield say("{path}: {reason}", path=unread_chain(unread), reason=unread.reason)


def settled_lines(settled: RehearsedVerdict) -> Iterator[Message]:
    """Yield what a run said, beside what the code alone had said."""
    seen = settled.seen
    if settled.decides:
        yield say("rehearsed with `{command}`: {message}", command=seen.command, message=seen.message)
        yield say("verdict from the code alone: {verdict}", verdict=_verdict(settled.static))
    else:
        yield say("rehearsed with `{command}`, without a result: {message}", command=seen.command, message=seen.message)
    yield from seen.notes
    if settled.fault is not None:
        yield say(
            "A BUG IN TORCHFERRY, please report it: {fault}; "
            "the same command with `--reproduction FILE.zip` saves what reproduces it",
            fault=settled.fault,
        )
