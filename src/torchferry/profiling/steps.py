"""The steps of a trace, and how the time of each is divided.

A step is what the host starts between two marks, and its window is the time in which the device does it: from the
moment at which the device has done all that was started before the step, to the same moment of the next one. The
host is often far ahead, so the window lies later than the mark. What was queued before the recording began belongs to
no step.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from torchferry.core.record import NamedTuple
from torchferry.profiling.intervals import Interval, Intervals, cut, difference, intersection, length, union
from torchferry.profiling.linking import Links, is_data_loading, is_step
from torchferry.profiling.records import COMMUNICATION, COMPUTE, COPY, FILL, MODULE, OPERATOR, RankTrace

PARTS = ("compute", "communication", "copies", "data", "idle")
"""The parts of a step's time, in the order of the table in `profiling/summary.py`."""


class TimedStep(NamedTuple):
    """One step.

    Attributes:
        name: `ProfilerStep#3`; empty where the trace marks no steps and this is the whole of it.
        window: From the moment at which the host has begun the step and the device has done all that was started
            before it, to the same moment of the next step.
        parts: Nanoseconds of each of `PARTS`, which sum to the length of the window.
        host: From the mark of the step on the host to the next one.
    """

    name: str
    window: Interval
    parts: tuple[int, ...]
    host: Interval = (0, 0)

    @property
    def time(self) -> int:
        """Return the length in nanoseconds."""
        return self.window[1] - self.window[0]


@dataclass(frozen=True)
class StepTimes:
    """The steps of a trace.

    Attributes:
        steps: The steps; the whole trace where it marks none.
        marked: Whether the trace marks steps.
        window: The time of the steps on the host, in which calls are counted.
        empty: Steps at the end that are left out, since the program did nothing in them: the profiler was stopped when
            they had just begun.
        is_empty: Whether the program did nothing in any step.
        hidden: Steps whose work was done before that of earlier steps, so that no time is left for them.
    """

    steps: tuple[TimedStep, ...]
    marked: bool
    window: Interval
    empty: int = 0
    is_empty: bool = False
    hidden: int = 0


def step_times(trace: RankTrace, links: Links, device: int) -> StepTimes:
    """Return the steps with the parts of their time.

    Args:
        trace: The trace.
        links: How its records hang together.
        device: The device whose time is divided; -1 for a trace of the CPU.
    """
    busy = {kind: union(spans(trace, device, kind)) for kind in (COMPUTE, COMMUNICATION)}
    copying = union([*spans(trace, device, COPY), *spans(trace, device, FILL)])
    loading = union((call.start, call.end) for call in trace.calls if is_data_loading(call))
    if device < 0:
        running = union(
            (call.start, call.end) for call in trace.calls if call.kind == OPERATOR and not _is_frame(call.name)
        )
        busy[COMPUTE] = difference(running, loading)
    marks = sorted((call.start, call.end, call.name) for call in trace.calls if is_step(call))
    marked = bool(marks)
    if not marks:
        bounds = [(call.start, call.end) for call in trace.calls] + [(work.start, work.end) for work in trace.work]
        marks = [(min(start for start, _ in bounds), max(end for _, end in bounds), "")]
    times = [*(start for start, _, _ in marks), max(end for _, end, _ in marks)]
    empty = _empty_at_end(trace, links, times) if marked else 0
    is_empty = empty == len(marks)
    if is_empty:
        empty = 0
    elif empty:
        del marks[-empty:], times[-empty:]
    ends = _when_done(trace, links, device, times)
    steps = [
        TimedStep(name, window, _parts(window, busy[COMPUTE], busy[COMMUNICATION], copying, loading), host)
        for (_, _, name), host, window in zip(marks, itertools.pairwise(times), itertools.pairwise(ends), strict=True)
    ]
    shown = tuple(step for step in steps if step.time > 0)
    return StepTimes(shown, marked, (times[0], times[-1]), empty, is_empty, len(steps) - len(shown))


def spans(trace: RankTrace, device: int, kind: str) -> list[Interval]:
    """Return the times of a device's works of one kind."""
    return [(work.start, work.end) for work in trace.work if work.kind == kind and work.device == device]


def _empty_at_end(trace: RankTrace, links: Links, times: list[int]) -> int:
    """Return how many of the last steps hold nothing but their own mark.

    `profiler.step()` at the end of a loop begins one more step, which nothing follows when the loop ends.
    """
    last = max(
        itertools.chain(
            (
                call.start
                for call in trace.calls
                if call.kind in (OPERATOR, MODULE) and not is_step(call) and not _is_frame(call.name)
            ),
            (moment for number, moment in enumerate(links.moments) if number not in links.leading),
        ),
        default=times[0] - 1,
    )
    return sum(time > last for time in times[:-1])


def _when_done(trace: RankTrace, links: Links, device: int, times: list[int]) -> list[int]:
    """Return for each moment of the host when the device has done what was started before it, or the moment itself."""
    started = sorted(
        (links.moments[number], work.end) for number, work in enumerate(trace.work) if work.device == device
    )
    moments: list[int] = []
    at, latest = 0, times[0]
    for time in times:
        while at < len(started) and started[at][0] < time:
            latest = max(latest, started[at][1])
            at += 1
        moments.append(max(time, latest))
    return moments


def _is_frame(name: str) -> bool:
    """Return whether an operator of the trace is a frame around others and computes nothing itself."""
    return name.startswith(("ProfilerStep", "enumerate(DataLoader)", "Optimizer.", "autograd::engine::"))


def _parts(
    window: Interval, compute: Intervals, communication: Intervals, copying: Intervals, loading: Intervals
) -> tuple[int, ...]:
    computing = cut(compute, window)
    communicating = difference(cut(communication, window), computing)
    busy = union([*computing, *communicating])
    copies = difference(cut(copying, window), busy)
    free = difference([window], union([*busy, *copies]))
    waiting = intersection(free, cut(loading, window))
    return (
        length(computing),
        length(communicating),
        length(copies),
        length(waiting),
        length(free) - length(waiting),
    )
