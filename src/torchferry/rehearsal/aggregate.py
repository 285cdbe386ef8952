"""What the processes of a rehearsal saw, put together."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from torchferry.core.json_text import parsed_json
from torchferry.core.shape import checked
from torchferry.core.torch_start import python_without_torch, was_refused
from torchferry.rehearsal.event_kinds import FAILS_ON_CARD


class RehearsalOutcome(Enum):
    """What a rehearsal comes to, for programs: the text is what the JSON summary and `mcp` have."""

    WOULD_FAIL = "would fail"
    GOES_ON = "goes on without"
    FAILED_ITSELF = "failed by itself"
    NOT_REHEARSED = "not rehearsed"
    NOTHING_RAN = "nothing ran"
    ON_CPU = "on the cpu"
    NOTHING_SEEN = "nothing seen"


@dataclass(frozen=True)
class EventSum:
    """Something that happened at one line, summed over all processes.

    Attributes:
        kind: One of `event_kinds.KINDS`.
        subject: What it is about: an operator, a dtype, an API.
        detail: More about it; may be empty.
        file: The user's file; empty where none of the user's lines was on the stack, as in backward.
        line: Line in it.
        times: How often.
        amount: How much in all; bytes for copies, floating point operations for work of a model on the CPU.
        caught: `reported` or `handled` where the program catches what is raised here, as `handlers.Caught` says.
        handler_file: Where it is caught.
        handler_line: The line of that `except` or `with`.
        earlier_file: Of a race: the file of what should have been waited for.
        earlier_line: Its line.
    """

    kind: str
    subject: str
    detail: str
    file: str
    line: int
    times: int
    amount: int
    caught: str = ""
    handler_file: str = ""
    handler_line: int = 0
    earlier_file: str = ""
    earlier_line: int = 0

    @property
    def fails(self) -> bool:
        """Whether a run on the card would fail or go wrong here."""
        return self.kind in FAILS_ON_CARD and not self.caught

    @property
    def goes_on(self) -> bool:
        """Whether the card refuses something here, and the program goes on without it."""
        return self.kind in FAILS_ON_CARD and bool(self.caught)

    @property
    def only_reported(self) -> bool:
        """Whether the program catches what is refused here, and does nothing about it but to report it."""
        return self.goes_on and self.caught == "reported"


class UncaughtError(NamedTuple):
    """The exception that ended a process.

    Attributes:
        name: Its class.
        file: The innermost file of the user's own on its traceback; empty where there is none.
        line: The line in it.
        module: The module that could not be imported, for a `ModuleNotFoundError`.
        text: What it says, the beginning of it where it is long.
    """

    name: str
    file: str = ""
    line: int = 0
    module: str = ""
    text: str = ""


@dataclass(frozen=True)
class Aggregate:
    """What a rehearsal saw.

    Attributes:
        processes: Processes that imported torch.
        on_device: Processes in which the simulated plugin was loaded.
        crashed: Processes that ended without giving their counts; what they saw first is in `events`.
        peaks: Largest peak of allocated bytes, by device index.
        operators: Calls of each operator.
        unverified: Operators that ran and of which nobody knows whether the plugin has them.
        events: Sorted by kind, then by how often.
        device_work: Floating point operations that the devices did in products, convolutions, attention and recurrent
            layers.
        imported: Modules that a process imported, by their first names; compiled ones by their whole names.
        torch: The version of torch; several processes may have several.
        without_torch: The Python of a process that looked for torch and has none.
        refused: Whether a process could not begin the rehearsal and said why.
        errors: What ended processes.
        triton_launches: What Triton kernels were launched with, as `triton_launches.py` describes it.
        triton_launches_left_out: How many kinds of launches were not kept.
    """

    processes: int
    on_device: int
    crashed: int
    peaks: tuple[int, ...]
    operators: dict[str, int]
    unverified: tuple[str, ...]
    events: tuple[EventSum, ...]
    device_work: int = 0
    imported: frozenset[str] = frozenset()
    torch: str = ""
    without_torch: str = ""
    refused: bool = False
    errors: tuple[UncaughtError, ...] = ()
    triton_launches: tuple[dict[str, Any], ...] = ()
    triton_launches_left_out: int = 0

    def of(self, *kinds: str) -> list[EventSum]:
        """Return the events of some kinds."""
        return [event for event in self.events if event.kind in kinds]

    @property
    def could_not_begin(self) -> bool:
        """Whether nothing was rehearsed since no process of the command could begin: torch is missing or too old."""
        return self.on_device == 0 and (self.refused or (self.processes == 0 and bool(self.without_torch)))

    @property
    def used(self) -> bool:
        """Whether anything ran on the device; a process that crashed did not tell, and counts as one that did."""
        return bool(self.operators or any(self.peaks) or self.crashed)

    @property
    def host_work(self) -> int:
        """Floating point operations that the CPU did for modules with parameters, or for gradients."""
        return sum(event.amount for event in self.of("host-work"))

    @property
    def mostly_on_host(self) -> bool:
        """Whether the CPU did more of the models' work than the devices; not known when a process crashed."""
        return not self.crashed and self.host_work > self.device_work

    @property
    def failures(self) -> list[EventSum]:
        """The events that would fail or go wrong on the card."""
        return [event for event in self.events if event.fails]

    @property
    def caught(self) -> list[EventSum]:
        """What the card refuses and the program goes on without."""
        return [event for event in self.events if event.goes_on]

    @property
    def refusals(self) -> list[EventSum]:
        """All that the card refuses, or that goes wrong there, whether the program catches it or not."""
        return [event for event in self.events if event.kind in FAILS_ON_CARD]

    @property
    def only_reported(self) -> list[EventSum]:
        """Of these: what the program catches and does nothing about but to report it."""
        return [event for event in self.caught if event.only_reported]


def collect(folder: Path) -> Aggregate:
    """Put together what the processes left in a session's folder."""
    documents = {path.stem.partition("-")[2]: _load(path) for path in folder.glob("process-*.json")}
    firsts = {path.stem.partition("-")[2]: path for path in folder.glob("first-*.jsonl")}
    lost = [pid for pid in firsts if pid not in documents]
    rows: list[dict[str, Any]] = [row for document in documents.values() for row in document.get("events", ())]
    lost_on_device = 0
    for pid, path in firsts.items():
        known = {_key(row)[0] for row in documents[pid].get("events", ())} if pid in documents else set()
        for row in _lines(path):
            if "device" in row:
                lost_on_device += pid not in documents
            elif _key(row)[0] not in known:  # from `atexit` behind ours, or behind an `exec`
                rows.append(row)
    operators: Counter[str] = Counter()
    peaks: dict[int, int] = defaultdict(int)
    unverified: set[str] = set()
    device_work = 0
    for document in documents.values():
        operators.update(document.get("operators", {}))
        device_work += document.get("work", 0)
        unverified.update(document.get("unverified_operators", ()))
        for index, stats in enumerate(document.get("memory", ())):
            peaks[index] = max(peaks[index], stats["peak_allocated"])
    return Aggregate(
        processes=len(documents) + len(lost),
        on_device=sum("device" in document for document in documents.values()) + lost_on_device,
        crashed=len(lost),
        peaks=tuple(peaks[index] for index in sorted(peaks)),
        operators=dict(operators.most_common()),
        unverified=tuple(sorted(unverified)),
        events=tuple(_merged(rows)),
        device_work=device_work,
        imported=frozenset(name for document in documents.values() for name in document.get("imported", ())),
        torch=", ".join(sorted({str(document["torch"]) for document in documents.values() if "torch" in document})),
        without_torch=python_without_torch(folder),
        refused=was_refused(folder),
        errors=tuple(UncaughtError(**document["error"]) for document in documents.values() if "error" in document),
        triton_launches=tuple(_launches(documents.values())),
        triton_launches_left_out=sum(document.get("triton_launches_left_out", 0) for document in documents.values()),
    )


def _launches(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the launches of all processes, each kind of one place once."""
    found: dict[str, dict[str, Any]] = {}
    for launch in (each for document in documents for each in document.get("triton_launches", ())):
        key = repr({**launch, "times": 0})
        if key in found:
            found[key]["times"] += launch["times"]
        else:
            found[key] = dict(launch)
    yield from found.values()


_Place = tuple[str, str, str, str, int]


_Others = tuple[str, str, int, str, int]


def _key(row: dict[str, Any]) -> tuple[_Place, _Others]:
    """Return what makes two rows the same: what happened where, who caught it, and what it came behind."""
    place = row["kind"], row["subject"], row["detail"], row["file"], row["line"]
    handler = row.get("caught", ""), row.get("handler_file", ""), row.get("handler_line", 0)
    return place, (*handler, row.get("earlier_file", ""), row.get("earlier_line", 0))


_EVENT = {"kind": str, "subject": str, "detail": str, "file": str, "line": int, "times": int, "amount": int,
          "caught?": str, "handler_file?": str, "handler_line?": int,
          "earlier_file?": str, "earlier_line?": int}  # fmt: skip
_LAUNCH = {"kernel": str, "file": str, "line": int, "place_file": str, "place_line": int, "times": int,
           "arguments": [{"name": str, "kind": str}]}  # fmt: skip
_PROCESS = {
    "events?": [_EVENT],
    "operators?": {str: int},
    "work?": int,
    "unverified_operators?": [str],
    "memory?": [{"peak_allocated": int}],
    "imported?": [str],
    "error?": {"name": str, "file": str, "line": int, "module": str},
    "triton_launches?": [_LAUNCH],
    "triton_launches_left_out?": int,
}
"""What a process leaves. The program that ran in it could write there too, so nothing of it is taken as it is."""


def _load(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = checked(parsed_json(path.read_bytes()), _PROCESS)
    except (OSError, ValueError):
        return {}
    return document


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    data = path.read_bytes()
    complete = data[: data.rfind(b"\n") + 1]  # the process may have died while it wrote
    for line in complete.split(b"\n"):
        with contextlib.suppress(ValueError):
            yield checked(parsed_json(line), ({"device": object}, _EVENT))


def _merged(rows: Iterable[dict[str, Any]]) -> list[EventSum]:
    sums: dict[tuple[_Place, _Others], list[int]] = {}
    for row in rows:
        total = sums.setdefault(_key(row), [0, 0])
        total[0] += row["times"]
        total[1] += row["amount"]
    events = [EventSum(*place, times, amount, *others) for (place, others), (times, amount) in sums.items()]
    return sorted(events, key=lambda event: (event.kind, -event.times, event.file, event.line, event.subject))
