"""What a trace holds, whichever profiler wrote it. All times are whole nanoseconds on the trace's own clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple

COMPUTE, COMMUNICATION, COPY, FILL = "compute", "communication", "copy", "fill"
"""Kinds of work of a device: kernels that compute, kernels that communicate, copies, and memory that is set."""

OPERATOR, ANNOTATION, RUNTIME, MODULE, PYTHON = "operator", "annotation", "runtime", "module", "python"
"""Kinds of calls on the host: operators of torch, ranges that a program marked, calls into the driver's libraries, the
forward of modules, and Python functions."""

MODULE_PREFIX = "nn.Module: "
"""How `torch.profiler` names the forward of a module in `with_stack`."""

FALLBACK_PREFIX = "torchferry fall back: "
"""How a recorder marks an operator that the simulated card gave to the CPU, with `#file:line` behind its name."""


class HostCall(NamedTuple):
    """Something that a thread of the host did.

    Attributes:
        kind: One of the kinds above.
        name: `aten::addmm`, `ProfilerStep#3`, `cudaLaunchKernel`, `nn.Module: Linear_0`.
        start: When it began.
        end: When it ended.
        thread: Number of the thread in `RankTrace.threads`.
        detail: Shapes and dtypes of an operator as the profiler wrote them; empty where it wrote none.
        sequence: Number that an operator of the forward shares with its backward; -1 without one.
        forward_thread: The thread of the forward as the profiler numbers it; 0 in the forward itself.
        correlation: Number that a call of the driver shares with the work that it started; 0 without one.
        layout: Of a convolution, `channels_last` or `contiguous` where its first input is one of them and not both.
    """

    kind: str
    name: str
    start: int
    end: int
    thread: int
    detail: str = ""
    sequence: int = -1
    forward_thread: int = 0
    correlation: int = 0
    layout: str = ""


class DeviceWork(NamedTuple):
    """Something that a device did.

    Attributes:
        kind: One of the kinds above.
        name: Name of the kernel, or of the copy.
        start: When it began.
        end: When it ended.
        device: Number of the device as the trace has it.
        stream: Number of the stream.
        correlation: Number that it shares with the call that started it; 0 without one.
        size: Bytes that a copy moved, or that a collective was given; -1 where the trace does not say.
        collective: What a kernel that communicates does, such as `allreduce`; empty where the trace does not say.
    """

    kind: str
    name: str
    start: int
    end: int
    device: int
    stream: int
    correlation: int = 0
    size: int = -1
    collective: str = ""


class MemoryEvent(NamedTuple):
    """What an allocator held at a moment.

    Attributes:
        time: The moment.
        device: Number of the device; -1 for the host.
        allocated: Bytes in use.
        reserved: Bytes that the allocator has taken; -1 where the trace does not say.
    """

    time: int
    device: int
    allocated: int
    reserved: int


class LaunchOrigin(NamedTuple):
    """A moment of a thread at which work of the device was started.

    Attributes:
        thread: Number of the thread in `RankTrace.threads`.
        time: The moment.
    """

    thread: int
    time: int


@dataclass
class RankTrace:
    """One rank's trace.

    Attributes:
        path: The file.
        form: What wrote it: `kineto`, or the name of the vendor whose own layout it has.
        rank: Rank of the process; -1 where the trace does not say.
        world_size: Number of ranks; 0 where the trace does not say.
        host_name: Name of the machine; empty where the trace does not say.
        device_names: Names of the devices.
        settings: What the trace says of its environment, by name.
        calls: What the host did.
        work: What the device did.
        memory: What the allocators held.
        origins: Where a trace says it directly: for the index of a work, the moment that started it.
        threads: Names of the threads.
        unknown: Categories that nobody here can read, and how many events each has.
        foreign: Those of `unknown` whose events are in no process of the host: they are of a device.
        skipped: Categories that hold nothing to measure, and how many events each has.
        faults: What is wrong with the trace itself: it ends early, its clocks run backwards, ...
        notes: What a reader of its figures must know beside that.
        size: Bytes of the trace, uncompressed.
        is_cut: Whether the file ends before the trace does.
    """

    path: str
    form: str = "kineto"
    rank: int = -1
    world_size: int = 0
    host_name: str = ""
    device_names: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    calls: list[HostCall] = field(default_factory=list)
    work: list[DeviceWork] = field(default_factory=list)
    memory: list[MemoryEvent] = field(default_factory=list)
    origins: dict[int, LaunchOrigin] = field(default_factory=dict)
    threads: list[str] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    skipped: dict[str, int] = field(default_factory=dict)
    faults: list[Message] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)
    size: int = 0
    is_cut: bool = False
