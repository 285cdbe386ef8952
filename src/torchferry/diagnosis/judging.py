"""What failed first, and what only follows from it.

A message of the role `cause` says why something failed. Of several, the earliest counts, unless one is written down as
the cause of another (`explains`). Without any, it is an exception that no entry knows, or a message of a process that
waits for another one, with its usual causes, whichever comes first; and last a message that only says that something
failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from torchferry.backends.errors import COMMON, ROLES, KnownError
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.diagnosis.inputs import NotRead
from torchferry.diagnosis.places import LineWriter
from torchferry.diagnosis.scanning import EndedFirst, Raised, Scan, Sighting, UnexplainedLine

Seen = TypeVar("Seen", Sighting, Raised)


class Failure(NamedTuple):
    """A message of the tables, with all places where it stands.

    Attributes:
        first: Where it is first.
        all: The first line of each process that wrote it, in their order.
        lines: How many lines say it.
    """

    first: Sighting
    all: tuple[Sighting, ...]
    lines: int

    @property
    def entry(self) -> KnownError:
        """The entry of the tables."""
        return self.first.entry


class RunDiagnosis(NamedTuple):
    """What the logs say of a failure.

    Attributes:
        first: The message that says why the run failed; None where none does.
        raised: The exception that belongs to it; without `first` the one that no entry knows.
        causes: Further messages that say why something failed.
        consequences: Messages that follow from a failure elsewhere, or are around the one that says why.
        doubts: What is not sure, such as the order of hosts with clocks of their own.
        not_read: What was not looked at.
        unexplained: The first lines that are marked as errors and that no entry matches.
        unexplained_count: How many such lines there are.
        files: How many logs were read.
        lines: How many lines they have.
        size: How many bytes they have.
    """

    first: Failure | None
    raised: Raised | None
    causes: tuple[Failure, ...]
    consequences: tuple[Failure, ...]
    doubts: tuple[Message, ...]
    not_read: tuple[NotRead, ...]
    unexplained: tuple[UnexplainedLine, ...]
    unexplained_count: int
    files: int
    lines: int
    size: int

    @property
    def failed(self) -> bool:
        """Whether the logs show a failure."""
        return self.first is not None or self.raised is not None

    @property
    def is_unknown(self) -> bool:
        """Whether nobody knows if the run failed: no failure is recognized, and lines are unread or unexplained."""
        return not self.failed and bool(self.not_read or self.unexplained)


def diagnose(scan: Scan) -> RunDiagnosis:
    """Return what a scan of logs says of a failure."""
    scan.sightings[:] = _with_ranks(scan.sightings, scan.ended_first)
    scan.raised[:] = _with_ranks(scan.raised, scan.ended_first)
    failures = _failures(scan)
    causes, others = _by_explanation(failures)
    is_ordered = _is_ordered([failure.first for failure in causes])
    if not is_ordered:
        causes = _launchers_first(causes, scan)
    unknown = _sorted(each for each in scan.raised if not each.is_known)
    first, raised = causes[0] if causes else None, None
    if first is None and others:
        explained = {key for failure in others for key in failure.entry.explains}
        first = min(others, key=lambda each: (ROLES.index(each.entry.role), each.entry.key in explained))
        if unknown and (first.entry.role == "echo" or _is_before(unknown[0], first.first)):
            first = None
    if first is None and unknown:
        raised = unknown[0]
    if first is not None:
        raised = _exception_of(first, scan.raised)
    return RunDiagnosis(
        first,
        raised,
        tuple(causes[1:]),
        tuple(each for each in others if each is not first),
        tuple(_doubts(causes, is_ordered)),
        tuple(scan.reader.not_read),
        tuple(scan.unexplained),
        scan.unexplained_count,
        len(scan.reader.files),
        scan.lines,
        scan.reader.size,
    )


def _with_ranks(seen: list[Seen], ended: Iterable[EndedFirst]) -> list[Seen]:
    """Give lines that name a process alone the rank that a launcher's summary or other lines of this process name."""
    ranks: dict[tuple[str, int | None], int | None] = {("", each.pid): each.rank for each in ended}
    ranks |= {
        (each.writer.host, each.writer.pid): each.writer.rank
        for each in seen
        if each.writer.pid is not None and each.writer.rank is not None
    }
    return [
        each._replace(writer=each.writer._replace(rank=ranks.get((each.writer.host, each.writer.pid))))
        if each.writer.rank is None
        else each
        for each in seen
    ]


def _failures(scan: Scan) -> list[Failure]:
    by_entry: dict[str, list[Sighting]] = {}
    for sighting in scan.sightings:
        by_entry.setdefault(sighting.entry.key, []).append(sighting)
    counts: dict[str, int] = {}
    for (key, _, _), count in scan.counts.items():
        counts[key] = counts.get(key, 0) + count
    failures = []
    for key, sightings in by_entry.items():
        ordered = _sorted(sightings)
        failures.append(Failure(ordered[0], tuple(ordered), counts[key]))
    first = {id(failure.first): failure for failure in failures}
    return [first[id(each)] for each in _sorted([failure.first for failure in failures])]


def _by_explanation(failures: Sequence[Failure]) -> tuple[list[Failure], list[Failure]]:
    """Part the messages that say why from those that follow, in order."""
    explained = {key for failure in failures for key in failure.entry.explains}
    causes = [each for each in failures if each.entry.role == "cause" and each.entry.key not in explained]
    if not causes:  # entries that explain each other
        causes = [each for each in failures if each.entry.role == "cause"][:1]
    return causes, [each for each in failures if all(each is not cause for cause in causes)]


def _sorted(seen: Iterable[Seen]) -> list[Seen]:
    """Sort by time where all lines have one of the same kind, else by their place in what was read."""
    lines = list(seen)
    if _is_ordered(lines):
        return sorted(lines, key=lambda each: (each.moment.seconds if each.moment is not None else 0.0, *_place(each)))
    return sorted(lines, key=_place)


def _is_before(one: Sighting | Raised, other: Sighting | Raised) -> bool:
    if one.moment is not None and other.moment is not None and one.file != other.file:
        return one.moment.seconds < other.moment.seconds
    return one.at < other.at


def _place(seen: Sighting | Raised) -> tuple[int, bool]:
    """Return where a line stands; of two entries on one line, that of a vendor says more than a common one."""
    return seen.at, isinstance(seen, Sighting) and seen.entry.owner == COMMON


def _is_ordered(seen: Sequence[Sighting] | Sequence[Raised]) -> bool:
    """Whether the order of lines is known: by their times, or since all are in one file."""
    if len({each.file.name for each in seen}) < 2 and not all(each.moment is not None for each in seen):
        return True
    kinds = {(each.moment.zone, each.moment.year) if each.moment is not None else None for each in seen}
    return len(kinds) < 2 and None not in kinds


def _launchers_first(causes: list[Failure], scan: Scan) -> list[Failure]:
    """Put the failures of the process first that a launcher saw end first."""
    ended = [(each.host, each.rank) for each in scan.ended_first if each.rank is not None]

    def is_later(failure: Failure) -> bool:
        writers = [sighting.writer for sighting in failure.all]
        return not any(
            writer.rank == rank and (not writer.host or not host or writer.host == host)
            for writer in writers
            for host, rank in ended
        )

    return sorted(causes, key=is_later)


_NEAR = 200
"""Lines between a message and the exception that carries it."""


_LAUNCHERS = "ChildFailedError"
"""What torch's launcher raises itself when a process has ended: its traceback is no program's."""


def _exception_of(failure: Failure, raised: Sequence[Raised]) -> Raised | None:
    """Return the exception in whose text a message stands, or which it led to in the same process."""
    first = failure.first
    own = [each for each in raised if not each.error.kind.endswith(_LAUNCHERS)]
    same = [each for each in own if each.file == first.file and _is_same(each.writer, first.writer)]
    near = [each for each in same if not first.line or not each.line or abs(each.line - first.line) <= _NEAR]
    return min(near, key=lambda each: (abs(each.line - first.line), each.at), default=None)


def _is_same(one: LineWriter, other: LineWriter) -> bool:
    return (one.rank is None or other.rank is None or one.rank == other.rank) and (
        not one.process or not other.process or one.process == other.process
    )


def _doubts(causes: Sequence[Failure], is_ordered: bool) -> Iterable[Message]:
    if len(causes) < 2:
        return
    if not is_ordered:
        yield say("the logs do not all say when, so the order between files is not known")
    hosts = {sighting.writer.host for failure in causes for sighting in failure.all if sighting.writer.host}
    if is_ordered and len(hosts) > 1:
        yield say("the order between hosts is that of their clocks, which may differ")
