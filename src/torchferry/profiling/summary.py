"""What one trace says: steps, where their time went, operators, waits of the host, copies and memory.

The time of a step is divided by sets of times. With K the times in which the device computes, C those in which it
communicates and M those in which it copies, a step of length T has

    compute                 |K|
    exposed communication   |C without K|
    exposed copies          |M without K and C|
    data loading            the rest while the host waits for the next batch
    idle                    the rest: the device waits for the host

and these sum to T exactly. `msprof-analyze` and HolisticTraceAnalysis measure exposed communication in the same way.
A trace without work of a device is one of the CPU: K are the times in which any operator runs.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.profiling.critical_path import CriticalPath, critical_path, typical_step
from torchferry.profiling.intervals import Interval, union
from torchferry.profiling.launches import LaunchRow, OverlapRow, QueueRow, launch_rows, overlap, queue_rows
from torchferry.profiling.linking import Links, is_data_loading, is_step, link
from torchferry.profiling.records import (
    ANNOTATION,
    COMMUNICATION,
    COPY,
    FALLBACK_PREFIX,
    RUNTIME,
    RankTrace,
)
from torchferry.profiling.steps import PARTS, TimedStep, step_times

BY = ("operator", "shape", "module", "stack", "kernel")
"""By what the time can be summed."""

_FRAMES = 5
"""Functions of a stack that are shown, the innermost first: as many as `group_by_stack_n=5` of torch."""

_NOT_THE_PROGRAMS = ("torch/", "torchferry/", "<")
"""How functions of torch, of the recorder and of C begin in a stack."""

_INSTANCE = re.compile(r"(?:\d+_+)+")
"""What a vendor's library puts after the name of each call, from its end: `allReduce__906_0_1`."""

DISPATCHED = "dispatched"
"""By the operators of torch alone: what a plugin calls inside of one counts for it. Two vendors share only these."""

_COPY_TO_CPU = "aten::_to_cpu"
"""What torch's own fall back calls to bring its inputs to the CPU (ATen/native/CPUFallback.cpp)."""

_READS_A_NUMBER = "aten::_local_scalar_dense"
"""What `.item()` and everything like it ends in: the host waits for the device."""


class TimeRow(NamedTuple):
    """What the calls of one operator, shape, module or kernel took together, in nanoseconds.

    Attributes:
        name: The operator, module or kernel.
        detail: Shapes and dtypes; empty where the rows are not divided by them.
        calls: How many calls; of a kernel, how often it ran.
        host: Time on the host with all that the calls call.
        host_self: Time on the host without the operators inside.
        device_self: Time on the device that the calls started themselves.
        device: The same with all that the calls call.
    """

    name: str
    detail: str
    calls: int
    host: int = 0
    host_self: int = 0
    device_self: int = 0
    device: int = 0


class WaitRow(NamedTuple):
    """Places where the host waits for the device.

    Attributes:
        name: The call of the driver, such as `cudaStreamSynchronize`.
        within: The operator in which it stands; empty outside of operators.
        calls: How many.
        time: Nanoseconds.
    """

    name: str
    within: str
    calls: int
    time: int


class CopyRow(NamedTuple):
    """Copies of one kind.

    Attributes:
        name: Such as `Memcpy HtoD (Pageable -> Device)`.
        calls: How many.
        time: Nanoseconds on the device.
        size: Bytes; -1 where the trace does not say.
    """

    name: str
    calls: int
    time: int
    size: int


class CollectiveRow(NamedTuple):
    """Collectives of one kind and size.

    Attributes:
        name: The collective where the trace names it, such as `allreduce`; else the kernel.
        size: Bytes that a rank puts in; -1 where the trace does not say.
        calls: How many kernels.
        time: Nanoseconds on the device, the wait for the other ranks included.
    """

    name: str
    size: int
    calls: int
    time: int

    @property
    def bandwidth(self) -> float | None:
        """Return bytes a second of what a rank puts in; None where the trace does not say the size.

        It is the algorithm bandwidth of nccl-tests (doc/PERFORMANCE.md) for collectives whose message is what a rank
        puts in; what the links carry is more, by a factor that depends on the collective and the number of ranks.
        """
        return self.size * self.calls * 1e9 / self.time if self.size >= 0 and self.time else None


class PeakRow(NamedTuple):
    """The most that an allocator held.

    Attributes:
        device: Number of the device; -1 for the host.
        allocated: Bytes in use.
        reserved: Bytes taken; -1 where the trace does not say.
    """

    device: int
    allocated: int
    reserved: int


@dataclass(frozen=True)
class Summary:
    """What one trace says.

    Attributes:
        trace: The trace.
        links: How its records hang together.
        device: The device whose time is divided; -1 for a trace of the CPU.
        others: Other devices in the trace, whose time is not divided.
        steps: The steps; the whole trace where it marks none.
        marked: Whether the trace marks steps.
        window: The time of the steps on the host, in which calls are counted.
        waits: Waits of the host in the steps, longest first.
        copies: Copies in the steps, longest first.
        collectives: Collectives in the steps by kind and size, longest first.
        fallbacks: Operators that went to the CPU by torch's fall back, most calls first.
        numbers_read: How often the host read a number of a tensor in the steps.
        peaks: The most that each allocator held.
        unlinked: Works of the device whose operator the trace does not tell, and their nanoseconds.
        leading: Works that were queued before the recording began, and their nanoseconds: they belong to no step.
        early: Works that begin before the call that starts them: the two clocks do not agree.
        empty: Steps at the end in which the program did nothing, which are not counted.
        is_empty: Whether the program did nothing in any step: the recording was stopped when the first had begun.
        hidden: Steps that have no time of their own, since the device was still at work for earlier ones.
        launches: How the driver's calls that start work behave, by their name, most calls first.
        queues: How much work waits in each stream.
        overlap: How much of the communication is hidden behind computing.
        unseen: Calls of the driver that start work of which the trace has nothing at all.
        path: What the step of median length waits for; None for a trace of the CPU, and where the trace does not say
            which calls start work.
    """

    trace: RankTrace
    links: Links
    device: int
    others: tuple[int, ...]
    steps: tuple[TimedStep, ...]
    marked: bool
    window: Interval
    waits: tuple[WaitRow, ...]
    copies: tuple[CopyRow, ...]
    collectives: tuple[CollectiveRow, ...]
    fallbacks: tuple[tuple[str, int], ...]
    numbers_read: int
    peaks: tuple[PeakRow, ...]
    unlinked: tuple[int, int]
    leading: tuple[int, int]
    early: int
    empty: int
    is_empty: bool
    hidden: int
    launches: tuple[LaunchRow, ...]
    queues: tuple[QueueRow, ...]
    overlap: OverlapRow
    unseen: int
    path: CriticalPath | None
    _rows: dict[str, tuple[TimeRow, ...]] = field(default_factory=dict, repr=False)

    @property
    def on_device(self) -> bool:
        """Return whether a device did anything."""
        return self.device >= 0

    def mean(self, part: str) -> float:
        """Return the mean nanoseconds of a part over the steps."""
        number = PARTS.index(part)
        return statistics.fmean(step.parts[number] for step in self.steps)

    def median(self, part: str) -> float:
        """Return the median nanoseconds of a part over the steps."""
        number = PARTS.index(part)
        return statistics.median(step.parts[number] for step in self.steps)

    @property
    def step_times(self) -> list[int]:
        """Return the times of the steps in nanoseconds."""
        return [step.time for step in self.steps]

    def without_records(self) -> Summary:
        """Return the same without the trace's records, which take nearly all of the memory."""
        rows = {by: self.rows(by) for by in (*BY, DISPATCHED)}
        trace = replace(self.trace, calls=[], work=[], memory=[], origins={})
        return replace(self, trace=trace, links=Links([], []), _rows=rows)

    def rows(self, by: str = "operator") -> tuple[TimeRow, ...]:
        """Return what took the time in the steps, most first: on the device, or on the host of a trace of the CPU.

        Args:
            by: One of `BY`, or `DISPATCHED`.
        """
        if by not in self._rows:
            self._rows[by] = _kernel_rows(self) if by == "kernel" else _time_rows(self, by)
        return self._rows[by]

    def rows_without(self, members: frozenset[int]) -> tuple[TimeRow, ...]:
        """Return the rows by `DISPATCHED` without some calls, given by their index in `RankTrace.calls`."""
        return _time_rows(self, DISPATCHED, members) if members else self.rows(DISPATCHED)


def summarise(trace: RankTrace) -> Summary:
    """Return what a trace says.

    Raises:
        TorchferryError: no time passes in it.
    """
    links = link(trace)
    by_device: dict[int, int] = defaultdict(int)
    for work in trace.work:
        by_device[work.device] += work.end - work.start
    devices = sorted(by_device, key=lambda number: -by_device[number])
    device = devices[0] if devices else -1
    times = step_times(trace, links, device)
    window = times.window
    if not times.steps:
        raise TorchferryError(
            say("{path} holds nothing that can be measured: no time passes in it", path=trace.path),
            trace.faults[0] if trace.faults else None,
        )
    unlinked = [
        work for number, work in enumerate(trace.work) if links.started_by[number] < 0 and number not in links.leading
    ]
    leading = [trace.work[number] for number in links.leading]
    early = sum(
        1
        for number, work in enumerate(trace.work)
        if links.launched[number] >= 0 and work.start < links.launched[number]
    )
    return Summary(
        trace,
        links,
        device,
        tuple(sorted(devices[1:])),
        times.steps,
        times.marked,
        window,
        _waits(trace, links, window),
        _copies(trace, links, window),
        _collectives(trace, links, device, window),
        _fallbacks(trace, links, window),
        _numbers_read(trace, window),
        _peaks(trace),
        (len(unlinked), sum(work.end - work.start for work in unlinked)),
        (len(leading), sum(work.end - work.start for work in leading)),
        early,
        times.empty,
        times.is_empty,
        times.hidden,
        launch_rows(trace, links, window),
        queue_rows(trace, links, window),
        overlap(trace, device, times.steps),
        _unseen(trace),
        critical_path(trace, links, device, typical_step(times.steps)) if device >= 0 else None,
    )


def _numbers_read(trace: RankTrace, window: Interval) -> int:
    """Return how often the host read a number of a tensor in the steps.

    An optimizer reads the count of its own steps, and a loader its seed: these are on the CPU, and nobody waits.
    """
    aside = union(
        (call.start, call.end)
        for call in trace.calls
        if call.kind == ANNOTATION and (call.name.startswith("Optimizer.step#") or is_data_loading(call))
    )
    starts = [start for start, _ in aside]
    count = 0
    for call in trace.calls:
        if call.name == _READS_A_NUMBER and _within(call.start, window):
            at = bisect_right(starts, call.start) - 1
            count += at < 0 or call.start >= aside[at][1]
    return count


def _within(time: int, window: Interval) -> bool:
    return window[0] <= time < window[1]


def _time_rows(summary: Summary, by: str, without: frozenset[int] = frozenset()) -> tuple[TimeRow, ...]:
    trace, links, window = summary.trace, summary.links, summary.window
    unlinked = [
        work.end - work.start
        for number, work in enumerate(trace.work)
        if links.started_by[number] < 0 and _within(links.moments[number], window)
    ]
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    stacks: dict[int, str] = {}
    for index in links.operators:
        call = trace.calls[index]
        if not _within(call.start, window) or is_step(call) or index in without:
            continue
        if by == "module":
            key = (links.module.get(index, ""), "")
        elif by == "stack":
            frame = links.frame.get(index, -1)
            if frame not in stacks:
                stacks[frame] = _stack(trace, links, frame)
            key = (stacks[frame], "")
        elif by == DISPATCHED:
            key = (_dispatched(trace, links, index), "")
        else:
            key = (call.name, call.detail if by == "shape" else "")
        entry = sums[key]
        duration = call.end - call.start
        outer = links.operator[index]
        if by in ("module", "stack"):
            whole = outer < 0
        else:  # an operator inside of one of its own name is the same call, dispatched again
            while outer >= 0 and trace.calls[outer].name != call.name:
                outer = links.operator[outer]
            whole = (by != DISPATCHED or call.name == key[0]) and outer < 0
        if whole:
            entry[0] += 1
            entry[1] += duration
            entry[4] += links.device[index]
        entry[2] += duration - links.inner[index]
        entry[3] += links.device_self[index]
    if unlinked:
        sums["", ""][0] += len(unlinked)
        sums["", ""][3] += sum(unlinked)
        sums["", ""][4] += sum(unlinked)
    rows = [TimeRow(name, detail, *entry) for (name, detail), entry in sums.items()]
    if summary.on_device:
        return tuple(sorted(rows, key=lambda row: (-row.device_self, -row.host_self, row.name, row.detail)))
    return tuple(sorted(rows, key=lambda row: (-row.host_self, row.name, row.detail)))


def _stack(trace: RankTrace, links: Links, frame: int) -> str:
    """Return the functions of the program around a call, the innermost first; torch's own where there is no other."""
    names: list[str] = []
    while frame >= 0:
        names.append(trace.calls[frame].name)
        frame = links.frame.get(frame, -1)
    own = [name for name in names if not name.startswith(_NOT_THE_PROGRAMS)]
    return " < ".join((own or names)[:_FRAMES])


def _dispatched(trace: RankTrace, links: Links, index: int) -> str:
    """Return the operator of torch that a call belongs to: the innermost one around it; its own name without one."""
    outer = index
    while outer >= 0:
        name = trace.calls[outer].name
        if "::" in name and not name.startswith(("autograd::", "torch::autograd::")):
            return name
        outer = links.operator[outer]
    return trace.calls[index].name


def _kernel_rows(summary: Summary) -> tuple[TimeRow, ...]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for number, work in enumerate(summary.trace.work):
        start = summary.links.moments[number]
        if _within(start, summary.window):
            sums[work.name][0] += 1
            sums[work.name][1] += work.end - work.start
    rows = [TimeRow(name, "", calls, device_self=time, device=time) for name, (calls, time) in sums.items()]
    return tuple(sorted(rows, key=lambda row: (-row.device_self, row.name)))


def _waits(trace: RankTrace, links: Links, window: Interval) -> tuple[WaitRow, ...]:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for index, call in enumerate(trace.calls):
        if call.kind == RUNTIME and "synchronize" in call.name.lower() and _within(call.start, window):
            outer = links.operator[index]
            entry = sums[call.name, trace.calls[outer].name if outer >= 0 else ""]
            entry[0] += 1
            entry[1] += call.end - call.start
    rows = (WaitRow(name, within, *entry) for (name, within), entry in sums.items())
    return tuple(sorted(rows, key=lambda row: (-row.time, row.name, row.within)))


def _unseen(trace: RankTrace) -> int:
    """Return how many calls start work where the trace has no work: it was cut off before, or was not recorded."""
    if trace.work:
        return 0
    return sum(1 for call in trace.calls if call.kind == RUNTIME and call.correlation and "launch" in call.name.lower())


def _copies(trace: RankTrace, links: Links, window: Interval) -> tuple[CopyRow, ...]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for number, work in enumerate(trace.work):
        if work.kind == COPY and _within(links.moments[number], window):
            entry = sums[work.name]
            entry[0] += 1
            entry[1] += work.end - work.start
            entry[2] = -1 if work.size < 0 or entry[2] < 0 else entry[2] + work.size
    rows = (CopyRow(name, *entry) for name, entry in sums.items())
    return tuple(sorted(rows, key=lambda row: (-row.time, row.name)))


def _collectives(trace: RankTrace, links: Links, device: int, window: Interval) -> tuple[CollectiveRow, ...]:
    sums: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for number, work in enumerate(trace.work):
        start = links.moments[number]
        if work.kind == COMMUNICATION and work.device == device and _within(start, window):
            entry = sums[work.collective or _without_instance(work.name), work.size]
            entry[0] += 1
            entry[1] += work.end - work.start
    rows = (CollectiveRow(name, size, *entry) for (name, size), entry in sums.items())
    return tuple(sorted(rows, key=lambda row: (-row.time, row.name, row.size)))


def _fallbacks(trace: RankTrace, links: Links, window: Interval) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = defaultdict(int)
    seen: set[int] = set()
    for index, call in enumerate(trace.calls):
        outer = links.operator[index]
        if call.name == _COPY_TO_CPU and outer >= 0 and outer not in seen and _within(call.start, window):
            seen.add(outer)
            counts[trace.calls[outer].name] += 1
        elif call.kind == ANNOTATION and call.name.startswith(FALLBACK_PREFIX) and _within(call.start, window):
            counts[call.name.removeprefix(FALLBACK_PREFIX).partition("#")[0]] += 1
    return tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _peaks(trace: RankTrace) -> tuple[PeakRow, ...]:
    peaks: dict[int, list[int]] = {}
    for event in trace.memory:
        peak = peaks.setdefault(event.device, [-1, -1])
        peak[0] = max(peak[0], event.allocated)
        peak[1] = max(peak[1], event.reserved)
    return tuple(PeakRow(device, *peak) for device, peak in sorted(peaks.items()))


def _without_instance(name: str) -> str:
    found = _INSTANCE.match(name[::-1])
    return name[: len(name) - found.end()] if found is not None else name
