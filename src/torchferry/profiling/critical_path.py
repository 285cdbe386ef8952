"""What a step waits for, from its end back to its begin: the chain in which each link had to wait for the one before.

From the last work of the step the path goes back to what let it begin last: the work before it on its stream, a work
that its stream waited for, or the call that started it. On the host it goes back through the calls of a thread. Where
the host waits for the device it goes to the work that it waited for, and where a thread begins or has a hole, to the
thread that was at work before. HolisticTraceAnalysis finds such a path as the longest one of a graph
(hta/analyzers/critical_path_analysis.py); the kinds of links are the same.

Each nanosecond of the step is in one link, so that the links sum to the step. What is shortened on the path shortens
the step; what is not on it does not.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass

from torchferry.core.record import NamedTuple
from torchferry.profiling.intervals import Interval
from torchferry.profiling.linking import Links, is_data_loading, is_step
from torchferry.profiling.records import ANNOTATION, COMMUNICATION, COMPUTE, COPY, FILL, OPERATOR, RUNTIME, RankTrace
from torchferry.profiling.steps import TimedStep

LINKS = ("compute", "communication", "copies", "gap", "launch", "driver", "operators", "data", "outside", "unknown")
"""Kinds of links: three of the device; holes between works of a stream; from the call that starts a work to its begin;
calls of the driver; operators on the host; the wait for the next batch; the host outside of all these; and what the
trace does not explain."""

_OF_WORK = {COMPUTE: "compute", COMMUNICATION: "communication", COPY: "copies", FILL: "copies"}
_STREAM_WAITS = "streamwaitevent"
_MOST_TURNS = 16
"""Changes of the thread at one moment, after which the path goes on in the thread that it is in."""


class PathRow(NamedTuple):
    """Links of one kind and name.

    Attributes:
        kind: One of `LINKS`.
        name: The kernel, the operator or the call; empty for holes.
        links: How many.
        time: Nanoseconds of them together.
    """

    kind: str
    name: str
    links: int
    time: int


@dataclass(frozen=True)
class CriticalPath:
    """The path of one step.

    Attributes:
        step: Its name.
        window: Its time.
        parts: Nanoseconds of each of `LINKS`, which sum to the time of the step.
        rows: The links by kind and name, longest first.
    """

    step: str
    window: Interval
    parts: tuple[int, ...]
    rows: tuple[PathRow, ...]


def critical_path(trace: RankTrace, links: Links, device: int, step: TimedStep) -> CriticalPath | None:
    """Return the path of a step; None where the trace says nothing of the calls that start work."""
    works = [
        number
        for number, work in enumerate(trace.work)
        if work.device == device and work.end > step.window[0] and work.start < step.window[1]
    ]
    if not any(links.launch[number] >= 0 for number in works):
        return None
    return _BackwardWalk(trace, links, step, works).path()


class _ThreadPieces:
    """What a thread does, as pieces without holes between its first and last call."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.owners: list[int] = []
        """Index of the innermost call of each piece; -1 for a hole."""
        self.ends: list[int] = []
        """Ends of its outermost calls, sorted."""

    def piece(self, time: int) -> tuple[int, int]:
        """Return begin and owner of the piece that ends at a moment or holds it; owner -2 before the first one."""
        at = bisect_left(self.starts, time) - 1
        return (self.starts[at], self.owners[at]) if at >= 0 else (time, -2)


class _BackwardWalk:
    """Goes back from the end of a step."""

    def __init__(self, trace: RankTrace, links: Links, step: TimedStep, works: list[int]) -> None:
        self._trace, self._links, self._step = trace, links, step
        self._begin = step.window[0]
        self._parts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._threads = self._laid_out()
        self._main = self._main_thread()
        self._before: dict[int, int] = {}
        streams: dict[int, int] = {}
        for number in sorted(works, key=lambda each: trace.work[each].start):
            stream = trace.work[number].stream
            if stream in streams:
                self._before[number] = streams[stream]
            streams[stream] = number
        self._by_end = sorted(works, key=lambda each: trace.work[each].end)
        self._ends = [trace.work[number].end for number in self._by_end]
        self._own: dict[int, list[int]] = defaultdict(list)
        for number in works:
            if links.launch[number] >= 0:
                self._own[links.launch[number]].append(number)
        self._stream_waits = sorted(
            (call.thread, call.start) for call in trace.calls if _STREAM_WAITS in call.name.lower()
        )

    def path(self) -> CriticalPath:
        """Return the path."""
        work, thread, time = self._last_work(self._step.window[1]), self._main, self._step.window[1]
        turns, turned_at = 0, time
        while time > self._begin:
            if work >= 0:
                work, thread, time = self._from_work(work, time)
            elif turns > _MOST_TURNS:
                self._add("unknown", "", self._begin, time)
                break
            else:
                work, thread, time = self._from_host(thread, time)
            turns, turned_at = (turns + 1, turned_at) if time == turned_at else (0, time)
        parts = [0] * len(LINKS)
        for (kind, _), (_, length) in self._parts.items():
            parts[LINKS.index(kind)] += length
        rows = (PathRow(kind, name, count, length) for (kind, name), (count, length) in self._parts.items())
        return CriticalPath(
            self._step.name,
            self._step.window,
            tuple(parts),
            tuple(sorted(rows, key=lambda row: (-row.time, row.kind, row.name))),
        )

    def _add(self, kind: str, name: str, start: int, end: int) -> None:
        length = end - max(start, self._begin)
        if length > 0:
            entry = self._parts[kind, name]
            entry[0] += 1
            entry[1] += length

    def _last_work(self, time: int) -> int:
        """Return the work that ended last, where the step ends with it."""
        at = bisect_right(self._ends, time) - 1
        return self._by_end[at] if at >= 0 and self._ends[at] == time else -1

    def _from_work(self, number: int, time: int) -> tuple[int, int, int]:
        """Go from a moment of a work to what let it begin."""
        work = self._trace.work[number]
        self._add(_OF_WORK[work.kind], work.name, work.start, time)
        start = min(work.start, time)
        call = self._links.launch[number]
        origin = self._trace.origins.get(number)
        thread, started = self._main, -1
        if call >= 0:
            thread, started = self._trace.calls[call].thread, min(self._trace.calls[call].end, start)
        elif origin is not None:
            thread, started = origin.thread, min(origin.time, start)
        before = self._before.get(number, -1)
        free = min(self._trace.work[before].end, start) if before >= 0 else -1
        awaited = self._awaited(number, max(started, free), start)
        if awaited >= 0:
            end = self._trace.work[awaited].end
            self._add("gap", "", end, start)
            return awaited, thread, end
        if started < 0 and free < 0:
            self._add("unknown", "", self._begin, start)
            return -1, thread, self._begin
        if free >= started:
            self._add("gap", "", free, start)
            return before, thread, free
        self._add("launch", "", started, start)
        return -1, thread, started

    def _awaited(self, number: int, after: int, start: int) -> int:
        """Return the work of another stream that ended last before a work, where its stream was told to wait."""
        call = self._links.launch[number]
        if call < 0 or not self._stream_waits:
            return -1
        launch = self._trace.calls[call]
        at = bisect_left(self._stream_waits, (launch.thread, launch.start)) - 1
        before = self._before.get(number, -1)
        earlier = (
            self._trace.calls[self._links.launch[before]].start if before >= 0 <= self._links.launch[before] else 0
        )
        if at < 0 or self._stream_waits[at][0] != launch.thread or self._stream_waits[at][1] < earlier:
            return -1
        last = bisect_right(self._ends, start) - 1
        while last >= 0 and self._ends[last] > after:
            other = self._by_end[last]
            is_earlier = self._trace.work[other].start < self._trace.work[number].start
            if is_earlier and self._trace.work[other].stream != self._trace.work[number].stream:
                return other
            last -= 1
        return -1

    def _from_host(self, thread: int, time: int) -> tuple[int, int, int]:
        """Go from a moment of a thread to what it did or waited for before."""
        start, owner = self._threads[thread].piece(time) if thread in self._threads else (time, -2)
        if owner >= 0:
            call = self._trace.calls[owner]
            work = self._waited_for(owner, time)
            if work >= 0:
                end = self._trace.work[work].end
                self._add("driver", call.name, end, time)
                return work, thread, end
            kind = "data" if call.kind == ANNOTATION else "driver" if call.kind == RUNTIME else "operators"
            self._add(kind, call.name, start, time)
            return -1, thread, start
        hole = self._begin if owner == -2 else start
        other, end = self._busy_before(thread, time, hole)
        if other >= 0:
            self._add("outside", "", end, time)
            return -1, other, end
        self._add("outside", "", hole, time)
        return -1, thread, min(hole, time)

    def _waited_for(self, index: int, time: int) -> int:
        """Return the work for which a call of the driver waited at the end; -1 for none."""
        call = self._trace.calls[index]
        if call.kind != RUNTIME:
            return -1
        if "synchronize" in call.name.lower():
            at = bisect_right(self._ends, time) - 1
            is_awaited = at >= 0 and self._ends[at] > call.start and self._trace.work[self._by_end[at]].start < time
            return self._by_end[at] if is_awaited else -1
        ended = [each for each in self._own.get(index, ()) if call.start < self._trace.work[each].end <= time]
        own = [each for each in ended if self._trace.work[each].start < time]
        return max(own, key=lambda each: self._trace.work[each].end, default=-1)

    def _busy_before(self, thread: int, time: int, since: int) -> tuple[int, int]:
        """Return the other thread that was at work last before a moment, and when; -1 for none since another one."""
        best, latest = -1, since
        for other, lane in self._threads.items():
            if other == thread:
                continue
            _, owner = lane.piece(time)
            if owner >= 0:  # it is at work right now
                return other, time
            at = bisect_right(lane.ends, time) - 1
            if at >= 0 and lane.ends[at] > latest:
                best, latest = other, lane.ends[at]
        return best, latest

    def _main_thread(self) -> int:
        marks = (call.thread for call in self._trace.calls if is_step(call))
        most = max(self._threads, key=lambda thread: len(self._threads[thread].starts), default=0)
        return next((thread for thread in marks if thread in self._threads), most)

    def _laid_out(self) -> dict[int, _ThreadPieces]:
        """Return what each thread does in the step: operators, calls of the driver, and waits for the next batch."""
        found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for index, call in enumerate(self._trace.calls):
            if call.end <= self._step.host[0] or call.start >= self._step.window[1] or is_step(call):
                continue
            if call.kind in (OPERATOR, RUNTIME) or is_data_loading(call):
                found[call.thread].append((call.start, -call.end, index))
        return {thread: self._pieces(sorted(calls)) for thread, calls in found.items()}

    def _pieces(self, calls: list[tuple[int, int, int]]) -> _ThreadPieces:
        lane = _ThreadPieces()
        opened: list[tuple[int, int]] = []

        def begin(time: int, owner: int) -> None:
            if lane.starts and lane.starts[-1] == time:
                lane.owners[-1] = owner
            else:
                lane.starts.append(time)
                lane.owners.append(owner)

        def close(until: int) -> None:
            while opened and opened[-1][0] <= until:
                end, _ = opened.pop()
                begin(max(end, lane.starts[-1]), opened[-1][1] if opened else -1)
                if not opened:
                    lane.ends.append(end)

        for start, end, index in calls:
            close(start)
            begin(max(start, lane.starts[-1]) if lane.starts else start, index)
            opened.append((-end, index))
        close(1 << 63)
        return lane


def typical_step(steps: tuple[TimedStep, ...]) -> TimedStep:
    """Return the step whose time is the median of all, or the shorter one of the two in the middle."""
    return heapq.nsmallest((len(steps) + 1) // 2, steps, key=lambda step: step.time)[-1]
