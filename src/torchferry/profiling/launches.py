"""How the host starts work of the device: launches, queues of streams, and communication behind computing.

The terms are those of HolisticTraceAnalysis (hta/analyzers: cuda_kernel_analysis.py, trace_counters.py,
communication_analysis.py), so that figures can be compared: the delay of a launch is the time from the end of the call
of the driver to the begin of the work, at least 0; the queue of a stream grows at the begin of such a call, and shrinks
when the work begins.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from torchferry.core.record import NamedTuple
from torchferry.profiling.intervals import Interval, cut, intersection, length, union
from torchferry.profiling.linking import Links
from torchferry.profiling.records import COMMUNICATION, COMPUTE, DeviceWork, RankTrace
from torchferry.profiling.steps import TimedStep, spans

LATE = 100_000
"""Nanoseconds from which on the delay of a launch is long (cuda_kernel_launch_stats, launch_delay_cutoff)."""

SLOW = 50_000
"""Nanoseconds from which on a call that starts work is long (cuda_kernel_launch_stats, runtime_cutoff)."""

FULL = 1024
"""Works in a stream at which CUDA lets the host wait until one begins (get_time_spent_blocked_on_full_queue)."""


class LaunchRow(NamedTuple):
    """Calls of one name that start work of the device; times are nanoseconds.

    Attributes:
        name: The call of the driver, such as `cudaLaunchKernel`.
        calls: How many.
        host: Median time of the call.
        device: Median time of the work.
        delay: Median time from the end of the call to the begin of the work.
        delay_most: The longest such time.
        late: Calls whose delay is longer than `LATE`.
        slow: Calls that take longer than `SLOW`.
        short: Calls whose work is shorter than themselves.
    """

    name: str
    calls: int
    host: float
    device: float
    delay: float
    delay_most: int
    late: int
    slow: int
    short: int


class QueueRow(NamedTuple):
    """Works that were started and have not begun, in one stream.

    Attributes:
        device: Number of the device.
        stream: Number of the stream.
        works: Works that were started in it.
        mean: Mean length of the queue over its changes.
        median: Median length over its changes.
        most: The longest.
        full: Nanoseconds in which it held `FULL` works or more.
    """

    device: int
    stream: int
    works: int
    mean: float
    median: float
    most: int
    full: int


class OverlapRow(NamedTuple):
    """Communication in the steps, in nanoseconds.

    Attributes:
        communication: Time in which the device communicates.
        hidden: Time of these in which it computes too.
    """

    communication: int
    hidden: int

    @property
    def share(self) -> float | None:
        """Return the share that is hidden; None without communication."""
        return self.hidden / self.communication if self.communication else None


def launch_rows(trace: RankTrace, links: Links, window: Interval | None = None) -> tuple[LaunchRow, ...]:
    """Return how the calls behave that start work, by name.

    Args:
        trace: The trace.
        links: How its records hang together.
        window: Time on the host in which calls are counted; None for the whole trace.
    """
    pairs: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    first: dict[int, DeviceWork] = {}
    for work, index in zip(trace.work, links.launch, strict=True):
        if index >= 0 and (index not in first or work.start < first[index].start):
            first[index] = work  # a graph is one call and many works, of which only the first waits for the call
    for index, work in first.items():
        call = trace.calls[index]
        if window is None or window[0] <= call.start < window[1]:
            host, device, delay = call.end - call.start, work.end - work.start, max(work.start - call.end, 0)
            pairs[call.name].append((host, device, delay))
    rows = []
    for name, found in pairs.items():
        hosts, devices, delays = ([pair[place] for pair in found] for place in range(3))
        rows.append(
            LaunchRow(
                name,
                len(found),
                statistics.median(hosts),
                statistics.median(devices),
                statistics.median(delays),
                max(delays),
                sum(each > LATE for each in delays),
                sum(each > SLOW for each in hosts),
                sum(pair[1] < pair[0] for pair in found),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.calls, row.name)))


def queue_rows(trace: RankTrace, links: Links, window: Interval | None = None) -> tuple[QueueRow, ...]:
    """Return the queue of each stream; works whose start is not recorded are left out.

    Args:
        trace: The trace.
        links: How its records hang together.
        window: Time on the host in which works are started that are counted; None for the whole trace.
    """
    changes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for work, index in zip(trace.work, links.launch, strict=True):
        if index >= 0 and (window is None or window[0] <= trace.calls[index].start < window[1]):
            changes[work.device, work.stream] += [(trace.calls[index].start, 1), (work.start, -1)]
    rows = []
    for (device, stream), found in changes.items():
        found.sort(key=lambda change: (change[0], -change[1]))
        lengths: list[int] = []
        waiting = full = before = 0
        for time, change in found:
            if waiting >= FULL:
                full += time - before
            waiting, before = waiting + change, time
            lengths.append(waiting)
        rows.append(
            QueueRow(
                device,
                stream,
                len(found) // 2,
                statistics.fmean(lengths),
                statistics.median(lengths),
                max(lengths),
                full,
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.works, row.device, row.stream)))


def overlap(trace: RankTrace, device: int, steps: Sequence[TimedStep]) -> OverlapRow:
    """Return how much of a device's communication in the steps is hidden behind computing."""
    window = (steps[0].window[0], steps[-1].window[1])
    communicating = cut(union(spans(trace, device, COMMUNICATION)), window)
    hidden = intersection(communicating, union(spans(trace, device, COMPUTE)))
    return OverlapRow(length(communicating), length(hidden))
