"""Which call of the host is in which, and which operator started which work of the device.

Work of a device carries the number of the call that started it (`correlation`), or the trace has an arrow from a moment
of a thread. The operator is the innermost one that this thread was in. The number that an operator shares with its work
(`External id`) is not used: it means different things in different releases of torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from torchferry.profiling.records import ANNOTATION, MODULE, OPERATOR, PYTHON, RUNTIME, HostCall, RankTrace

BEFORE_ALL = -(1 << 63)
"""A moment before all that a trace can have."""

_Known = TypeVar("_Known", str, int)


@dataclass
class Links:
    """How the records of a trace hang together; all lists go by the index in `RankTrace.calls` or `RankTrace.work`.

    Attributes:
        operator: For each call the innermost operator around it, -1 without one.
        inner: For each call the nanoseconds in operators directly inside it, which its own time leaves out.
        module: For each operator the module it belongs to, outermost first: `GPT.Block_0.Linear_1`. An operator of the
            backward has the module of its forward. Only for those that have one.
        frame: For each operator and Python function the Python function around it. An operator of the backward that
            no function calls has that of its forward. Only where the trace has stacks.
        started_by: For each work the operator that started it, -1 where the trace does not say.
        launched: For each work the moment at which the host started it, -1 where the trace does not say.
        launch: For each work the call of the driver that started it, -1 where the trace does not say.
        leading: Works that were started before the recording began: on their stream they come before all works whose
            start was recorded.
        moments: For each work the moment at which it counts as started: that of its start on the host, else the one at
            which it begins; before all other moments for those that lead.
        operators: The operators, those inside of others before these.
        device_self: For each call the nanoseconds of the device's work that it started itself.
        device: The same with all that the operators inside of it started.
    """

    operator: list[int]
    inner: list[int]
    module: dict[int, str] = field(default_factory=dict)
    frame: dict[int, int] = field(default_factory=dict)
    started_by: list[int] = field(default_factory=list)
    launched: list[int] = field(default_factory=list)
    launch: list[int] = field(default_factory=list)
    leading: frozenset[int] = frozenset()
    moments: list[int] = field(default_factory=list)
    operators: list[int] = field(default_factory=list)
    device_self: list[int] = field(default_factory=list)
    device: list[int] = field(default_factory=list)


def link(trace: RankTrace) -> Links:
    """Return how the records of a trace hang together."""
    calls = trace.calls
    links = Links([-1] * len(calls), [0] * len(calls))
    threads: list[list[tuple[int, int, int, int]]] = [[] for _ in range(_number_of_threads(trace))]
    for index, call in enumerate(calls):
        threads[call.thread].append((call.start, -call.end, 1, index))
    probes: dict[int, int] = {}
    for number, origin in trace.origins.items():
        threads[origin.thread].append((origin.time, -origin.time, 2, -2 - number))
    for events in threads:
        events.sort()
        _sweep(calls, events, links, probes)
    _give_to_backward(calls, links, links.module)
    _give_to_backward(calls, links, links.frame)
    launches = {
        call.correlation: index for index, call in enumerate(calls) if call.kind == RUNTIME and call.correlation
    }
    for number, work in enumerate(trace.work):
        call_index = launches.get(work.correlation, -1) if work.correlation else -1
        if call_index >= 0:
            links.started_by.append(links.operator[call_index])
            links.launched.append(calls[call_index].start)
            links.launch.append(call_index)
            continue
        links.launch.append(-1)
        if number in trace.origins:
            links.started_by.append(probes.get(number, -1))
            links.launched.append(trace.origins[number].time)
        else:
            links.started_by.append(-1)
            links.launched.append(-1)
    links.leading = _leading(trace, links)
    links.moments = [
        BEFORE_ALL if number in links.leading else launched if launched >= 0 else work.start
        for number, (work, launched) in enumerate(zip(trace.work, links.launched, strict=True))
    ]
    _sum_device_time(trace, links)
    return links


def _leading(trace: RankTrace, links: Links) -> frozenset[int]:
    """Return the works that were queued before the recording: a stream works off what is queued in its order."""
    first: dict[tuple[int, int], int] = {}
    for work, launched in zip(trace.work, links.launched, strict=True):
        if launched >= 0:
            stream = work.device, work.stream
            first[stream] = min(work.start, first.get(stream, work.start))
    return frozenset(
        number
        for number, work in enumerate(trace.work)
        if links.launched[number] < 0 and work.start < first.get((work.device, work.stream), work.start)
    )


def _sum_device_time(trace: RankTrace, links: Links) -> None:
    """Sum the device's time for each operator, alone and with what it calls."""
    calls = trace.calls
    links.operators = sorted(
        (index for index, call in enumerate(calls) if call.kind == OPERATOR), key=lambda index: -calls[index].start
    )  # the inner ones begin later than those around them
    links.device_self = [0] * len(calls)
    for work, operator in zip(trace.work, links.started_by, strict=True):
        if operator >= 0:
            links.device_self[operator] += work.end - work.start
    links.device = list(links.device_self)
    for index in links.operators:
        outer = links.operator[index]
        if outer >= 0:
            links.device[outer] += links.device[index]


def _number_of_threads(trace: RankTrace) -> int:
    highest = max((call.thread for call in trace.calls), default=-1)
    return 1 + max([highest, *(origin.thread for origin in trace.origins.values())])


def _sweep(
    calls: list[HostCall], events: list[tuple[int, int, int, int]], links: Links, probes: dict[int, int]
) -> None:
    """Go through a thread's calls in the order of their start, with those that are open on a stack."""
    operators: list[int] = []
    modules: list[tuple[int, str]] = []
    frames: list[int] = []
    for start, _, _, index in events:
        while operators and calls[operators[-1]].end <= start:
            operators.pop()
        while modules and modules[-1][0] <= start:
            modules.pop()
        while frames and calls[frames[-1]].end <= start:
            frames.pop()
        innermost = operators[-1] if operators else -1
        if index <= -2:
            probes[-2 - index] = innermost
            continue
        call = calls[index]
        links.operator[index] = innermost
        if frames and call.kind in (OPERATOR, PYTHON):
            links.frame[index] = frames[-1]
        if call.kind == OPERATOR:
            if innermost >= 0:
                links.inner[innermost] += min(call.end, calls[innermost].end) - start
            operators.append(index)
            if modules:
                links.module[index] = modules[-1][1]
        elif call.kind == MODULE:
            path = f"{modules[-1][1]}.{call.name}" if modules else call.name
            modules.append((call.end, path))
        elif call.kind == PYTHON:
            frames.append(index)


def _give_to_backward(calls: list[HostCall], links: Links, known: dict[int, _Known]) -> None:
    """Give operators of the backward the known facts about their forward; what they call inherits it."""
    by_sequence = {
        calls[index].sequence: fact
        for index, fact in known.items()
        if calls[index].sequence >= 0 and not calls[index].forward_thread
    }
    if not by_sequence:
        return
    for index in sorted(range(len(calls)), key=lambda number: calls[number].start):
        call = calls[index]
        if call.kind != OPERATOR or index in known:
            continue
        fact = by_sequence.get(call.sequence) if call.sequence >= 0 and call.forward_thread else None
        if fact is None and links.operator[index] >= 0:
            fact = known.get(links.operator[index])
        if fact is not None:
            known[index] = fact


def is_step(call: HostCall) -> bool:
    """Return whether a call is a step as `torch.profiler` marks it."""
    return call.kind in (ANNOTATION, OPERATOR) and call.name.startswith("ProfilerStep")


def is_data_loading(call: HostCall) -> bool:
    """Return whether a call waits for the next batch of a `DataLoader`; torch marks each `__next__`."""
    return call.kind in (ANNOTATION, OPERATOR) and call.name.startswith("enumerate(DataLoader)")
