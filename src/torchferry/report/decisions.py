"""What a person has to decide, each thing once: its places, the programs that wait for it, and what to decide first."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade, Location, Stage
from torchferry.core.messages import Message, Value, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.programs.model import JudgedProgram, Obstacle, Verdict
from torchferry.rules.anchors import in_cuda_words
from torchferry.rules.family import Subject
from torchferry.rules.registry import rule_facts

_SHORT, _LONG = 4, 8
"""Digits of the hash in an id; the long form where two decisions of a report have the same short one."""

WORST_EFFECT_FIRST = (Effect.RAISES, Effect.WRONG, Effect.UNKNOWN, Effect.SLOW, Effect.NOTHING)
"""What may happen at a place, the worst first."""

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._+-]+")

_Key = tuple[str, str]
"""The rule and what tells its decisions apart; without a rule the name of a package, an operator or a module."""


class ReportedDecision(NamedTuple):
    """Something that a person has to decide.

    Attributes:
        id: What it is called on the command line: the name of a package or module, or the rule with digits that stay
            when lines move and when files are migrated.
        message: What it is, and what to do, at the first of its places; counts are those of all places.
        code: The rule of that place.
        effect: The worst that happens at its places.
        findings: Its places, the worst first.
        places: All of them, with those in packages of an environment.
        is_fix: Whether torchferry has an edit for each place, which a person reads first.
        is_unresolved: Whether nobody could tell what is at its places.
        stopped: The programs that it stops.
        undecided: Those of which the files do not say whether they need it.
        waiting: The others that reach one of its places as they are started.
        ways: How programs reach one of its places, each with the title of the program, where that was followed.
    """

    id: str
    message: Message
    code: str
    effect: Effect
    findings: tuple[Finding, ...]
    places: tuple[Location, ...]
    is_fix: bool = False
    is_unresolved: bool = False
    stopped: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    ways: tuple[tuple[str, Obstacle], ...] = ()

    @property
    def subjects(self) -> tuple[str, ...]:
        """The things of which its messages say the same, each once; the first one is that of `message`."""
        named = (without_subject(each.message)[1] for each in self.findings if followed_line(each) is None)
        return tuple(dict.fromkeys(name for name in (without_subject(self.message)[1], *named) if name))

    @property
    def programs(self) -> tuple[str, ...]:
        """All programs that wait for it, those that it stops first."""
        return (*self.stopped, *self.undecided, *self.waiting)

    @property
    def titled_programs(self) -> tuple[tuple[Message, tuple[str, ...]], ...]:
        """The programs by how it concerns them, each kind below its title; a kind may have none."""
        return (
            (say("Programs that it blocks:"), self.stopped),
            (say("Programs that may need it:"), self.undecided),
            (say("Programs that reach one of its places:"), self.waiting),
        )

    @property
    def blocks(self) -> bool:
        """Whether something cannot run before it is settled."""
        return bool(self.stopped) or any(finding.blocker for finding in self.findings)

    @property
    def is_of_installation(self) -> bool:
        """Whether it is about what is installed, which all programs need."""
        return rule_facts(self.code).about is Subject.REQUIREMENT


class _DecisionGroup:
    """What belongs to one decision, while it is collected."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.ways: list[tuple[str, Obstacle]] = []
        self.programs: dict[str, int] = {}

    def reached_by(self, program: str, rank: int) -> None:
        """Note a program: 0 where it is stopped, 1 where it is unknown, 2 where it reaches a place."""
        self.programs[program] = min(rank, self.programs.get(program, rank))


class Decisions(NamedTuple):
    """The decisions of a report.

    Attributes:
        all: The worst first.
        of_program: The ids of what is to be decided that each program waits for; a program that waits for none is not
            among them.
    """

    all: tuple[ReportedDecision, ...]
    of_program: Mapping[str, tuple[str, ...]]

    @property
    def to_decide(self) -> tuple[ReportedDecision, ...]:
        """Those that a person decides: no fixes to read, and nothing that could not be resolved."""
        return tuple(each for each in self.all if not each.is_fix and not each.is_unresolved)

    @property
    def of_no_program(self) -> tuple[ReportedDecision, ...]:
        """Those that a person decides and no program waits for, those of the installation not among them."""
        return tuple(each for each in self.to_decide if not each.programs and not each.is_of_installation)

    @property
    def unresolved(self) -> tuple[ReportedDecision, ...]:
        """What could not be resolved, so that nobody knows whether there is anything to decide."""
        return tuple(each for each in self.all if each.is_unresolved and not each.is_fix)

    @property
    def to_read(self) -> tuple[ReportedDecision, ...]:
        """The fixes to read."""
        return tuple(each for each in self.all if each.is_fix)

    def first(self, most: int) -> tuple[ReportedDecision, ...]:
        """Return the decisions with which most programs become ready soonest; where no program waits, the worst ones.

        Of the programs that are left, each time that set of decisions is taken that makes most programs ready for each
        decision, and of equal ones that with the fewest places. Those that are chosen come in the order of all. Where
        no set is so small, the best one is taken whole: a part of it would make nothing ready.
        """
        by_id = {each.id: each for each in self.all}
        waiting = Counter(frozenset(ids) for ids in self.of_program.values())
        chosen: dict[str, None] = {}
        while waiting:
            settled = frozenset(chosen)
            fitting = [each for each in waiting if not chosen or len(each | settled) <= most]
            if not fitting:
                break
            needed = min(fitting, key=partial(_cost, waiting, settled, by_id))
            chosen |= dict.fromkeys(needed)
            waiting = Counter({other: count for other, count in waiting.items() if not other <= chosen.keys()})
        first = frozenset(chosen or [each.id for each in self.to_decide][:most])
        return tuple(each for each in self.all if each.id in first)

    def ready_after(self, decided: Iterable[ReportedDecision]) -> int:
        """Return how many programs wait for nothing once some decisions are settled."""
        ids = {each.id for each in decided}
        return sum(ids.issuperset(needed) for needed in self.of_program.values())


def _cost(
    waiting: Mapping[frozenset[str], int],
    settled: frozenset[str],
    by_id: Mapping[str, ReportedDecision],
    needed: frozenset[str],
) -> tuple[float, int, list[str]]:
    """Return what sets of decisions are chosen by, the least first: programs made ready for each, then places."""
    more = needed - settled
    ready = sum(count for other, count in waiting.items() if other <= needed | settled)
    return -ready / max(len(more), 1), sum(len(by_id[each].places) for each in more), sorted(needed)


def decisions_of(target: str, findings: Sequence[Finding], programs: Sequence[JudgedProgram]) -> Decisions:
    """Return the decisions of a report.

    Args:
        target: The target, as `NAME` or `NAME@VERSION`.
        findings: What was found.
        programs: The programs and their verdicts.
    """
    keys = _Keys(target, findings)
    groups: defaultdict[_Key, _DecisionGroup] = defaultdict(_DecisionGroup)
    by_place: dict[tuple[Location, str], _Key] = {}
    at: defaultdict[Location, list[_Key]] = defaultdict(list)
    for finding in findings:
        key = keys.of(finding)
        by_place[finding.location if finding.origin is None else finding.origin, finding.code] = key
        if finding.grade in (Grade.MANUAL, Grade.UNSAFE):
            groups[key].findings.append(finding)
            at[finding.location if finding.origin is None else finding.origin].append(key)
    for judged in programs:
        ranked = [
            *((obstacle, 0) for obstacle in judged.blockers),
            *((obstacle, 1) for obstacle in judged.undecided),
            *((obstacle, 2) for obstacle in (*judged.builds, *judged.doubts) if obstacle.call_path.may_be_taken),
        ]
        for obstacle, rank in ranked:
            key = by_place.get((obstacle.place, obstacle.code)) or ("", slug(obstacle.what))
            groups[key].ways.append((judged.program.title, obstacle))
            groups[key].reached_by(judged.program.title, rank)
        for place in judged.decisions:
            for key in at[place]:
                groups[key].reached_by(judged.program.title, 2)
    ids = _ids(groups)
    decisions = [_decision(ids[key], group) for key, group in groups.items()]
    of_program: defaultdict[str, list[str]] = defaultdict(list)
    ordered = tuple(sorted(decisions, key=_rank))
    for each in ordered:
        for program in () if each.is_fix or each.is_unresolved else each.programs:
            of_program[program].append(each.id)
    unread = {judged.program.title for judged in programs if judged.verdict is Verdict.NOT_JUDGED}
    return Decisions(
        ordered, {program: tuple(needed) for program, needed in of_program.items() if program not in unread}
    )


def _rank(decision: ReportedDecision) -> tuple[object, ...]:
    """Return what decisions are sorted by, the worst first."""
    return (
        not decision.blocks,
        decision.is_fix,
        -len(decision.stopped),
        -len(decision.undecided),
        WORST_EFFECT_FIRST.index(decision.effect),
        -len(decision.programs),
        -len(decision.places),
        decision.id,
    )


def _decision(name: str, group: _DecisionGroup) -> ReportedDecision:
    findings = tuple(sorted(group.findings, key=_rank_of_place))
    obstacles = [obstacle for _, obstacle in group.ways]
    first = findings[0] if findings else None
    places = {each.location: None for each in findings}
    covered = {each.location if each.origin is None else each.origin for each in findings}
    places |= {each.place: None for each in obstacles if each.place not in covered}
    stopped, undecided, waiting = (
        tuple(program for program, rank in group.programs.items() if rank == wanted) for wanted in range(3)
    )
    return ReportedDecision(
        name,
        _summed([each.message for each in findings]) if findings else obstacles[0].message,
        first.code if first is not None else obstacles[0].code,
        min((each.effect for each in findings), key=WORST_EFFECT_FIRST.index, default=Effect.RAISES),
        findings,
        tuple(places),
        is_fix=bool(findings) and not obstacles and all(each.grade is Grade.UNSAFE for each in findings),
        is_unresolved=bool(findings) and all(rule_facts(each.code).unresolved for each in findings),
        stopped=stopped,
        undecided=undecided,
        waiting=waiting,
        ways=tuple(group.ways),
    )


def _rank_of_place(finding: Finding) -> tuple[object, ...]:
    """Return what the places of a decision are sorted by: the first one says what is to be decided."""
    follows = followed_line(finding) is not None
    return not finding.blocker, finding.grade is not Grade.MANUAL, follows, finding.location.order


def followed_line(finding: Finding) -> int | None:
    """Return the line of the place because of which another one is to be decided, or read; None where it is its own."""
    if not any(each.stage is Stage.GROUP for each in finding.regradings):
        return None
    reason = dict(finding.message.values).get("reason")
    line = dict(reason.values).get("line") if isinstance(reason, Message) else None
    return int(line) if isinstance(line, str) and line.isdecimal() else None


class _Keys:
    """Tells which findings belong to one decision."""

    def __init__(self, target: str, findings: Iterable[Finding]) -> None:
        self._target = Target.named(target)
        self._texts: dict[Message, str] = {}
        self._causes: dict[tuple[str, int, Grade], Finding] = {}
        asked = [
            each
            for each in findings
            if each.grade in (Grade.MANUAL, Grade.UNSAFE)
            and followed_line(each) is None
            and not rule_facts(each.code).unresolved  # what waits for such a place is still to be decided
        ]
        for finding in sorted(asked, key=lambda each: (each.location.order, each.code)):
            place = finding.location
            self._causes.setdefault((place.path, place.line, finding.grade), finding)

    def of(self, finding: Finding) -> _Key:
        """Return what a finding is grouped by: a thing that several rules speak of, or the rule and what it says.

        What it says is taken in CUDA's words, so that it is the same once the file is migrated. What changes only with
        another place belongs to the decision about that.
        """
        line = followed_line(finding)
        cause = None if line is None else self._causes.get((finding.location.path, line, finding.grade))
        if cause is not None:
            return self.of(cause)
        thing = finding.package or finding.lacks or finding.installs
        if thing:
            return ("", slug(thing))
        if finding.grade is Grade.UNSAFE:  # which fixes of a rule are right is one question
            return (finding.code, "")
        alike = _without_counts(without_subject(finding.message)[0])
        if alike not in self._texts:
            self._texts[alike] = in_cuda_words(self._target, alike.render("en"))
        return (finding.code, self._texts[alike])


def without_subject(message: Message) -> tuple[Message, str]:
    """Return a message without the first name in it, and that name: what is said alike of several things is one."""
    for number, (name, value) in enumerate(message.values):
        rest = message.values[number + 1 :]
        if isinstance(value, Message):
            inner, subject = without_subject(value)
            return message._replace(values=(*message.values[:number], (name, inner), *rest)), subject
        if isinstance(value, str) and name != "count":
            return message._replace(values=(*message.values[:number], (name, ""), *rest)), value
    return message, ""


_COUNTED = ("count", "line", "lines", "place")
"""Values of a message that belong to its place alone: how many things are there, and where."""


def _without_counts(message: Message) -> Message:
    """Return a message without its counts: what is said alike of two files is one decision, however much they hold."""
    values = (
        (name, _without_counts(value) if isinstance(value, Message) else "" if name in _COUNTED else value)
        for name, value in message.values
    )
    return message._replace(values=tuple(values), singular="")


def _summed(messages: Sequence[Message]) -> Message:
    """Return the first of messages that are alike but for their counts, with the sums of these."""
    first = messages[0]
    if any(each.template != first.template or len(each.values) != len(first.values) for each in messages):
        return first
    values: list[tuple[str, Value]] = []
    for number, (name, value) in enumerate(first.values):
        others = [each.values[number][1] for each in messages]
        inner = [each for each in others if isinstance(each, Message)]
        numbers = [int(each) for each in others if isinstance(each, str) and each.isdecimal()]
        if len(inner) == len(others):
            values.append((name, _summed(inner)))
        elif name == "count" and len(numbers) == len(others):
            values.append((name, str(sum(numbers))))
        else:
            values.append((name, "..." if name in _COUNTED[1:] and len(set(others)) > 1 else value))
    return first._replace(values=tuple(values))


def slug(thing: str) -> str:
    """Return a thing, such as `mmcv built with MMCV_WITH_OPS=1` or `Lightning's x`, as an id has it: its first word."""
    word = next(iter(thing.split(maxsplit=1)), "").removesuffix("'s")
    return _NOT_IN_IDS.sub("-", word).strip("-.") or "-"


def _ids(keys: Iterable[_Key]) -> dict[_Key, str]:
    """Return the id of each decision; two never have the same."""
    short = {key: _id(key, _SHORT) for key in keys}
    counts = Counter(short.values())
    return {key: name if counts[name] == 1 else _id(key, _LONG) for key, name in short.items()}


def _id(key: _Key, digits: int) -> str:
    code, text = key
    if not code:
        return text
    if not text:
        return code
    return f"{code}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:digits]}"


def counted_decisions(decisions: Sequence[ReportedDecision]) -> Message:
    """Return how many decisions there are, and in how many places, as a title begins."""
    places = sum(len(each.places) for each in decisions)
    title = say_plural("Decisions: one", "Decisions: {count}", count=len(decisions))
    return say("{decisions} in {count} places", decisions=title, count=places) if places > len(decisions) else title


def decisions_title(decisions: Sequence[ReportedDecision]) -> Message:
    """Return the title above decisions: how many there are, in how many places, and how many block."""
    blocking = sum(each.blocks for each in decisions)
    title = counted_decisions(decisions)
    if blocking:
        blocked = say_plural("one of them blocks", "{count} of them block", count=blocking)
        title = say("{decisions}; {blocked}", decisions=title, blocked=blocked)
    return title if len(decisions) == 1 else say("{decisions}; the worst first", decisions=title)


def effect_words(effect: Effect) -> Message:
    """Return what happens at the places of a decision as a phrase."""
    match effect:
        case Effect.RAISES:
            return say("ends with an error")
        case Effect.WRONG:
            return say("goes wrong in silence")
        case Effect.SLOW:
            return say("works, slower")
        case Effect.NOTHING:
            return say("changes nothing")
        case Effect.UNKNOWN:
            return say("effect not known")
