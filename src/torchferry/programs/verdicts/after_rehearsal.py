"""A verdict and a run of the same program on the simulated card: which of them holds, and whether both can be true."""

from __future__ import annotations

from torchferry.core.messages import Message, say
from torchferry.programs.model import (
    CallPath,
    JudgedProgram,
    Obstacle,
    Reachability,
    RehearsedVerdict,
    RunEnding,
    RunOutcome,
    Step,
    Verdict,
    location_of,
)

PACKAGE = "package"
"""The kind of what stopped a run when it is a package that could not be imported."""

_NOT_JUDGED_STATICALLY = frozenset({"out-of-memory", "rank"})
"""What depends on sizes and on the machine: no verdict from the code alone speaks of it."""

_DECIDED = frozenset({"cuda-remnant", "identity", "mixed-devices", "fork", "sharing", "memory-format", "backend"})
"""What a person mends in the program's own lines; what is left needs something else in its place."""


def after_rehearsal(static: JudgedProgram, seen: RunOutcome) -> JudgedProgram:
    """Return the verdict after a run: what was seen in place of what the code alone said.

    Args:
        static: The verdict from the code alone, for the command that ran.
        seen: What the run showed.
    """
    seen = _as_far_as_it_goes(static, seen)
    if seen.ending is RunEnding.NOTHING:
        return static._replace(settled=RehearsedVerdict(seen, static))
    if seen.ending is RunEnding.WELL:
        return _after_a_good_end(static, seen)
    return _after_a_failure(static, seen)


def _as_far_as_it_goes(static: JudgedProgram, seen: RunOutcome) -> RunOutcome:
    """Return a run that ended well as one that settles nothing where it did not do what the verdict is about."""
    if seen.ending is not RunEnding.WELL:
        return seen
    if not seen.on_card and (static.fixes or static.blockers):
        message = say("it ended normally, but nothing ran on the card; add the option that selects the card")
        return seen._replace(ending=RunEnding.NOTHING, message=message)
    not_imported = sorted({blocker.what for blocker in static.blockers if _is_imported(blocker.what, seen)})
    if not_imported:
        message = say(
            "it ended normally with {names}, which this machine has: a rehearsal cannot show whether the card has it",
            names=", ".join(not_imported),
        )
        return seen._replace(ending=RunEnding.NOTHING, message=message)
    return seen


def _after_a_good_end(static: JudgedProgram, seen: RunOutcome) -> JudgedProgram:
    notes, fault = seen.notes, None
    if static.decisions:
        count = len(static.decisions)
        notes = (*notes, say("decisions in the code that this run did not need: {count}", count=count))
    if static.blockers:
        names = ", ".join(dict.fromkeys(blocker.what for blocker in static.blockers))
        fault = say("the verdict from the code says that it needs {names}, but the run did not", names=names)
    if static.optional:
        verdict = Verdict.WITHOUT
    else:
        verdict = Verdict.FIXES if static.fixes else Verdict.READY
    record = RehearsedVerdict(seen._replace(notes=notes), static, fault)
    return static._replace(verdict=verdict, blockers=(), decisions=(), unresolved=(), settled=record)


def _after_a_failure(static: JudgedProgram, seen: RunOutcome) -> JudgedProgram:
    expected = next((item for item in (*static.blockers, *static.optional) if _means(item, seen)), None)
    obstacle = (
        Obstacle(seen.what, "", location_of(seen.place), seen.message, _way(static, seen))
        if expected is None
        else expected
    )
    obstacle = obstacle._replace(
        call_path=obstacle.call_path._replace(reachability=Reachability.ALWAYS, conditions=(), options=())
    )
    record = RehearsedVerdict(seen, static, _fault(static, seen, expected))
    if seen.kind in _DECIDED and not static.blockers:
        places = dict.fromkeys((*static.decisions, location_of(seen.place)))
        if _is_decided(static, seen):
            places = dict.fromkeys(static.decisions)
        return static._replace(verdict=Verdict.DECISIONS, decisions=tuple(places), settled=record)
    blockers = (obstacle, *(blocker for blocker in static.blockers if blocker is not expected))
    optional = tuple(item for item in static.optional if item is not expected)
    return static._replace(verdict=Verdict.BLOCKED, blockers=blockers, optional=optional, settled=record)


def _fault(static: JudgedProgram, seen: RunOutcome, obstacle: Obstacle | None) -> Message | None:
    """Return why a verdict cannot be true beside a failure; None where it spoke of that, or could not have."""
    if seen.kind in _NOT_JUDGED_STATICALLY or static.verdict in (Verdict.BLOCKED, Verdict.NOT_JUDGED):
        return None
    if static.verdict is Verdict.DECISIONS and _is_decided(static, seen):
        return None
    if obstacle is not None and obstacle.call_path.reachability is Reachability.CHOSEN:
        return None
    if seen.package and any(_same(item.package, seen.package) for item in static.unverified):
        return None
    if obstacle is not None:
        return say(
            "the verdict from the code says that it continues without {what}, but the run did not", what=seen.what
        )
    return say("the verdict from the code does not mention {what}, which stopped the run", what=seen.what)


def _is_decided(static: JudgedProgram, seen: RunOutcome) -> bool:
    """Whether a decision of the verdict is at the place where the run failed."""
    return any(f"{place.path}:{place.line}" == seen.place for place in static.decisions)


def _is_imported(package_name: str, seen: RunOutcome) -> bool:
    plain = _plain(package_name)
    names = map(_plain, seen.imported)
    return any(name == plain or name.startswith(f"{plain}.") or name.endswith(f".{plain}") for name in names)


def _means(obstacle: Obstacle, seen: RunOutcome) -> bool:
    """Whether what stopped a run is what a verdict speaks of: by its name, or by its place."""
    if f"{obstacle.place.path}:{obstacle.place.line}" == seen.place:
        return True
    return seen.kind == PACKAGE and (_same(obstacle.what, seen.what) or _same(obstacle.what, _last(seen.what)))


def _same(first: str, second: str) -> bool:
    first, second = _plain(first), _plain(second)
    return first == second or first.startswith(f"{second}.") or second.startswith(f"{first}.")


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _plain(name: str) -> str:
    """Return a name as the package and its distribution share it, mostly."""
    return name.lower().replace("-", "_")


def _way(static: JudgedProgram, seen: RunOutcome) -> CallPath:
    place = location_of(seen.place)
    steps = [Step(static.program.path, 1)] if place.path != static.program.path else []
    if place.path:
        steps.append(Step(place.path, place.line))
    return CallPath(Reachability.ALWAYS, tuple(steps))
