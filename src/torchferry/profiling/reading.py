"""Reads traces: Kineto's of any device, and the layouts of vendors that `backends/trace_layout.py` knows."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from torchferry.backends.trace_layout import TraceLayout, communication_names, trace_layouts
from torchferry.core.errors import TorchferryError
from torchferry.core.folders import walk
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import reading
from torchferry.core.record import NamedTuple
from torchferry.profiling.event_stream import EventStream
from torchferry.profiling.kernel_table import compared_with_table, kernel_table, read_kernels
from torchferry.profiling.records import (
    ANNOTATION,
    COMMUNICATION,
    COMPUTE,
    COPY,
    FILL,
    MODULE,
    MODULE_PREFIX,
    OPERATOR,
    PYTHON,
    RUNTIME,
    DeviceWork,
    HostCall,
    LaunchOrigin,
    MemoryEvent,
    RankTrace,
)
from torchferry.profiling.values import is_no_number, is_time, kind_by_name, nanoseconds, number

DTYPES_AFTER = " | "
"""The text between the shapes and the dtypes of an operator in `HostCall.detail`."""

_INSTANT, _ARROW = ("i", "I"), ("s", "f")
_MEMORY = "[memory]"
_CONVOLUTION = "aten::convolution"
_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_]?(\d{1,6})(?!\d)")
_TRACE_FILES = (".pt.trace.json", ".pt.trace.json.gz")
_STEP = re.compile(r"ProfilerStep#(\d{1,9})")
_DEPTH = 4
_MOST_SHOWN = 30
_MOST_FILES = 4096

_MEASURES_NOTHING = frozenset(
    # arrows between rows, the profiler's own spans, ranges repeated on the device, waits of streams for each other
    {
        "trace",
        "overhead",
        "gpu_user_annotation",
        "fwdbwd",
        "ac2g",
        "async_cpu_to_gpu",
        "async_gpu",
        "enqueue",
        "dequeue",
    }
    | {"async_task_queue", "hosttodevice", "cpu_instant_event", "external_correlation"}
)


def locate(path: Path) -> list[Path]:
    """Return the traces at a path: the file itself, or all that a folder holds, by rank where it is known.

    Raises:
        TorchferryError: there is none.
    """
    if not path.is_dir():
        return [path]
    names = {name for layout in trace_layouts() for name in layout.files}
    files = [file for file in _files(path) if file.name in names or file.name.endswith(_TRACE_FILES)]
    if not files:
        files = [file for file in _files(path) if kernel_table(file) is not None]
    if not files:
        files = [file for file in _files(path) if file.parent == path and file.name.endswith((".json", ".json.gz"))]
    if not files:
        raise TorchferryError(
            say("no trace in {path}", path=path),
            say("give the JSON file that the profiler wrote, such as *.pt.trace.json, or its folder"),
        )
    return sorted(files, key=lambda file: (_rank_of_path(file), _by_numbers(str(file))))


def _by_numbers(path: str) -> list[tuple[str, int]]:
    """Return a key that sorts `worker0.2` before `worker0.10`."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d{0,18})", path)]


def _files(folder: Path) -> Iterator[Path]:
    count = 0
    for root, folders, names in walk(folder):
        if len(Path(root).relative_to(folder).parts) >= _DEPTH:
            folders.clear()
        folders.sort()
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                raise TorchferryError(
                    say("{path} holds too many files (more than {number})", path=folder, number=_MOST_FILES),
                    say("give the folder of the traces alone"),
                )
            file = Path(root, name)
            if not file.is_symlink():
                yield file


def _rank_of_path(path: Path) -> int:
    for folder in (path.parent, path.parent.parent):
        for layout in trace_layouts():
            if layout.rank_file is not None and path.name in (*layout.files, *layout.kernels.files):
                for name in sorted(os.listdir(folder)):
                    match = layout.rank_file.fullmatch(name)
                    if match:
                        return int(match[1][:18])
    for part in (path.name, path.parent.name):
        match = _NAME.search(part.lower())
        if match:
            return int(match[1][:18])
    return -1


def read(path: Path) -> RankTrace:
    """Return the trace in a file.

    Args:
        path: The file, compressed with gzip or not.

    Raises:
        TorchferryError: the file cannot be read, is no trace, or holds nothing that can be measured.
    """
    table = kernel_table(path)
    with reading(path) as work:
        if table is not None:
            trace = read_kernels(path, table, work.reach)
            trace.rank = _rank_of_path(path)
            return trace
        stream = EventStream(path, work.reach)
        reader = _EventReader(str(path))
        for event in stream:
            reader.take(event)
        trace = reader.finished(stream.header)
    trace.size, trace.is_cut = stream.size, stream.fault is not None
    if trace.rank < 0:
        trace.rank = _rank_of_path(path)
    if stream.fault is not None:
        trace.faults.insert(0, say("the trace is incomplete: {problem}", problem=stream.fault))
    if not trace.calls and not trace.work:
        if stream.is_cut:
            raise stream.cut_before_all()
        why = say("its categories are: {names}", names=", ".join(sorted(trace.unknown)) or "-")
        raise TorchferryError(
            say("{path} holds nothing that can be measured: neither calls of the host nor work of a device", path=path),
            trace.faults[0] if trace.faults else why,
        )
    trace.notes += compared_with_table(trace, path)
    return trace


class _Misread(NamedTuple):
    """How many events have a field that cannot be read, and the first such value."""

    events: int
    first: object


class _EventReader:
    """Turns events into records; what only the end of a trace explains is put aside until then."""

    def __init__(self, path: str) -> None:
        self.trace = RankTrace(path)
        self._threads: dict[tuple[Any, Any], int] = {}
        self._communication = communication_names()
        self._plain: list[dict[str, Any]] = []
        self._arrows: list[dict[str, Any]] = []
        self._processes: dict[Any, str] = {}
        self._thread_names: dict[tuple[Any, Any], str] = {}
        self._links = {layout.link for layout in trace_layouts() if layout.link}
        self._without_time = 0
        self._backwards = 0
        self._misread: dict[str, _Misread] = {}
        self._unknown: Counter[str] = Counter()
        self._unknown_places: set[tuple[str, Any]] = set()
        self._skipped: Counter[str] = Counter()
        self._kinds: dict[str, str] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Take the next event."""
        phase = event.get("ph")
        if phase == "X":
            category = event.get("cat")
            if category is None:
                self._plain.append(event)
            else:
                self._complete(event, str(category))
        elif phase == "M":
            self._metadata(event)
        elif phase in _INSTANT:
            if event.get("name") == _MEMORY:
                self._memory(event)
        elif phase in _ARROW and _hashable(event.get("cat")) in self._links:
            self._arrows.append(event)

    def _complete(self, event: dict[str, Any], category: str) -> None:
        kind = self._kinds.get(category)
        if kind is None:
            kind = self._kinds[category] = _kind(category)
        if kind == "skip":
            self._skipped[category] += 1
            return
        if kind == "unknown":
            self._unknown[category] += 1
            self._unknown_places.add((category, _hashable(event.get("pid"))))
            return
        arguments = event.get("args")
        if not isinstance(arguments, dict):
            arguments = {}
        name = str(event.get("name", ""))
        times = self._times(event)
        if times is None:
            return
        if kind in _WORK:
            if kind == COMPUTE and self._communication.search(name.lower()):
                kind = COMMUNICATION
            self.trace.work.append(
                DeviceWork(
                    kind,
                    name,
                    *times,
                    self._number(arguments, "device") if "device" in arguments else self._number(event, "pid"),
                    self._number(arguments, "stream") if "stream" in arguments else self._number(event, "tid"),
                    self._number(arguments, "correlation", 0),
                    self._number(arguments, "bytes") if "bytes" in arguments else _message_size(arguments),
                    str(arguments.get("Collective name", "")) if kind == COMMUNICATION else "",
                )
            )
            return
        thread = self._thread(event)
        if name.startswith(MODULE_PREFIX):
            self.trace.calls.append(HostCall(MODULE, name[len(MODULE_PREFIX) :], *times, thread))
        elif kind == OPERATOR:
            self.trace.calls.append(
                HostCall(
                    OPERATOR,
                    name,
                    *times,
                    thread,
                    self._detail(arguments),
                    self._number(arguments, "Sequence number"),
                    self._number(arguments, "Fwd thread id", 0),
                    layout=_layout(arguments) if name == _CONVOLUTION else "",
                )
            )
        elif kind == RUNTIME:
            correlation = self._number(arguments, "correlation", 0)
            self.trace.calls.append(HostCall(RUNTIME, name, *times, thread, correlation=correlation))
        else:
            self.trace.calls.append(HostCall(kind, name, *times, thread))

    def _number(self, fields: dict[str, Any], name: str, default: int = -1) -> int:
        """Return a field of an event as a whole number; what can be none is counted and told at the end."""
        value = fields.get(name)
        if is_no_number(value):
            self._cannot_read(name, value)
        return number(value, default)

    def _detail(self, arguments: dict[str, Any]) -> str:
        """Return shapes and dtypes of an operator's inputs in one line."""
        shapes = arguments.get("Input Dims", arguments.get("Input dims"))
        if not isinstance(shapes, (list, str)) or not shapes:
            return ""
        text = shapes if isinstance(shapes, str) else _shapes(shapes)
        if text is None:
            self._cannot_read("Input Dims", shapes)
            return ""
        types = arguments.get("Input type")
        names = _dtypes(types) if isinstance(types, list) else None
        if names is None and isinstance(types, list):
            self._cannot_read("Input type", types)
        return text + (DTYPES_AFTER + ",".join(names) if names else "")

    def _cannot_read(self, name: str, value: object) -> None:
        """Count a field that is not as any profiler writes it: the event is measured without it."""
        known = self._misread.get(name)
        self._misread[name] = _Misread(1, value) if known is None else _Misread(known.events + 1, known.first)

    def _times(self, event: dict[str, Any]) -> tuple[int, int] | None:
        start, length = nanoseconds(event.get("ts")), nanoseconds(event.get("dur", 0))
        if start is None or length is None or not is_time(start + length):
            self._without_time += 1
            for name, value in (("ts", event.get("ts")), ("dur", event.get("dur"))):
                if is_no_number(value):
                    self._cannot_read(name, value)
            return None
        if length < 0:
            self._backwards += 1
            return None
        return start, start + length

    def _thread(self, event: dict[str, Any]) -> int:
        key = (_hashable(event.get("pid")), _hashable(event.get("tid")))
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = len(self._threads)
        return thread

    def _metadata(self, event: dict[str, Any]) -> None:
        arguments = event.get("args")
        name = arguments.get("name") if isinstance(arguments, dict) else None
        if event.get("name") == "process_name":
            self._processes[_hashable(event.get("pid"))] = str(name)
        elif event.get("name") == "thread_name":
            self._thread_names[_hashable(event.get("pid")), _hashable(event.get("tid"))] = str(name)

    def _memory(self, event: dict[str, Any]) -> None:
        arguments = event.get("args")
        time = nanoseconds(event.get("ts"))
        if not isinstance(arguments, dict) or time is None:
            return
        on_host = arguments.get("Device Type") == 0
        self.trace.memory.append(
            MemoryEvent(
                time,
                -1 if on_host else self._number(arguments, "Device Id"),
                self._number(arguments, "Total Allocated"),
                self._number(arguments, "Total Reserved"),
            )
        )

    def finished(self, header: dict[str, Any]) -> RankTrace:
        """Return the trace, given what is next to its events."""
        trace = self.trace
        self._own_layout()
        trace.threads = [self._thread_names.get(key, f"{key[0]}/{key[1]}") for key in self._threads]
        trace.unknown, trace.skipped = dict(self._unknown), dict(self._skipped)
        threads = [{call.thread for call in trace.calls if call.kind == kind} for kind in (OPERATOR, RUNTIME)]
        of_host = {process for (process, _), thread in self._threads.items() if thread in (threads[0] or threads[1])}
        trace.foreign = frozenset(category for category, place in self._unknown_places if place not in of_host)
        _header(trace, header)
        if self._without_time:
            trace.faults.append(
                say_plural("{count} event has no time", "{count} events have no time", count=self._without_time)
            )
        if self._backwards:
            trace.faults.append(
                say_plural(
                    "{count} event ends before it begins",
                    "{count} events end before they begin",
                    count=self._backwards,
                )
            )
        for field, misread in self._misread.items():
            trace.faults.append(
                say_plural(
                    "{count} event has a `{field}` that no profiler writes, such as {value}",
                    "{count} events have a `{field}` that no profiler writes, such as {value}",
                    count=misread.events,
                    field=field,
                    value=_shown(misread.first),
                )
            )
        trace.faults += _disorder(trace)
        return trace

    def _own_layout(self) -> None:
        """Take the rows that have no category: the name of their process says what they are."""
        layouts: dict[str, tuple[TraceLayout, str]] = {}
        for layout in trace_layouts():
            layouts.update((name, (layout, COMPUTE)) for name in layout.work_processes)
            layouts.update((name, (layout, COMMUNICATION)) for name in layout.communication_processes)
            layouts.update((name, (layout, RUNTIME)) for name in layout.runtime_processes)
            layouts.update((name, (layout, "skip")) for name in layout.derived_processes)
        at: dict[tuple[Any, Any, int], int] = {}
        for event in self._plain:
            process = self._processes.get(_hashable(event.get("pid")), "")
            if process not in layouts:
                self._unknown[process or "-"] += 1
                continue
            layout, kind = layouts[process]
            if kind == "skip":
                self._skipped[process] += 1
                continue
            times = self._times(event)
            if times is None:
                continue
            self.trace.form = layout.name
            name = str(event.get("name", ""))
            if kind == RUNTIME:
                self.trace.calls.append(HostCall(RUNTIME, name, *times, self._thread(event)))
                continue
            if kind == COMPUTE:
                kind = kind_by_name(name, self._communication)
            key = (_hashable(event.get("pid")), _hashable(event.get("tid")), times[0])
            at[key] = len(self.trace.work)
            self.trace.work.append(DeviceWork(kind, name, *times, number(event.get("pid")), number(event.get("tid"))))
        self._plain = []
        self._link(at)

    def _link(self, at: dict[tuple[Any, Any, int], int]) -> None:
        """Follow the arrows from the operators to what the device did for them."""
        origins: dict[Any, LaunchOrigin] = {}
        for event in self._arrows:
            time = nanoseconds(event.get("ts"))
            if time is not None and event["ph"] == "s":
                origins[_hashable(event.get("id"))] = LaunchOrigin(self._thread(event), time)
        for event in self._arrows:
            time = nanoseconds(event.get("ts"))
            if time is None or event["ph"] != "f":
                continue
            work = at.get((_hashable(event.get("pid")), _hashable(event.get("tid")), time))
            origin = origins.get(_hashable(event.get("id")))
            if work is not None and origin is not None:
                self.trace.origins[work] = origin
        self._arrows = []


def _disorder(trace: RankTrace) -> Iterator[Message]:
    """Yield what is numbered in another order than its times have: the host's clock was set back, or units are mixed.

    Steps are numbered, and so are operators of the forward on their thread, from 0 in each new thread.
    """
    cause = say("the clock of the host ran backwards, or times are in different units")
    begun: dict[int, int] = {}
    forward: dict[int, list[tuple[int, int, int]]] = {}
    for call in trace.calls:
        step = _STEP.fullmatch(call.name)
        if step is not None:
            number = int(step[1])
            begun[number] = min(call.start, begun.get(number, call.start))
        elif call.kind == OPERATOR and call.sequence >= 0 and not call.forward_thread:
            forward.setdefault(call.thread, []).append((call.start, -call.end, call.sequence))
    for number, following in pairwise(sorted(begun)):
        if begun[following] <= begun[number]:
            yield say(
                "step {following} does not begin after step {number}: {cause}",
                following=following,
                number=number,
                cause=cause,
            )
            return
    count = 0
    for calls in forward.values():
        calls.sort()
        count += sum(0 < after[2] < before[2] for before, after in pairwise(calls))
    if count:
        yield say_plural(
            "{count} operator does not begin after the one that was called before it: {cause}",
            "{count} operators do not begin after those that were called before them: {cause}",
            count=count,
            cause=cause,
        )


_WORK = frozenset({COMPUTE, COMMUNICATION, COPY, FILL})


def _kind(category: str) -> str:
    """Return what events of a category are; vendors' Kineto has the same words behind another beginning."""
    word = category.lower()
    if word in _MEASURES_NOTHING or word.endswith("_sync"):
        return "skip"
    if word in ("cpu_op", "operator"):
        return OPERATOR
    if word == "user_annotation":
        return ANNOTATION
    if word == "python_function":
        return PYTHON
    if word.endswith(("runtime", "driver")):
        return RUNTIME
    if word.endswith("memcpy"):
        return COPY
    if word.endswith("memset"):
        return FILL
    if word.endswith("kernel"):
        return COMPUTE
    return "unknown"


def _hashable(value: object) -> Any:
    return value if isinstance(value, (str, int, float)) else str(value)


def _layout(arguments: dict[str, Any]) -> str:
    """Return the layout of a convolution's first input, which torch 2.2 and newer write as its strides."""
    shapes, strides = arguments.get("Input Dims"), arguments.get("Input Strides")
    if not (isinstance(shapes, list) and isinstance(strides, list) and shapes and strides):
        return ""
    shape, stride = shapes[0], strides[0]
    if not (isinstance(shape, list) and isinstance(stride, list) and len(shape) == len(stride) and len(shape) > 3):
        return ""
    if not all(isinstance(size, int) for size in (*shape, *stride)) or shape[1] == 1 or max(shape[2:]) == 1:
        return ""  # both at once
    return "channels_last" if stride[1] == 1 else "contiguous" if stride[-1] == 1 else ""


def _message_size(arguments: dict[str, Any]) -> int:
    """Return the bytes that a collective moves, which torch 2.2 and newer write beside its kernel; -1 where not."""
    elements = number(arguments.get("In msg nelems"))
    width = _WIDTHS.get(str(arguments.get("dtype", "")).lower(), -1)
    return elements * width if elements >= 0 and width > 0 else -1


_WIDTHS = {
    **dict.fromkeys(("double", "long", "complexfloat"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("half", "bfloat16", "short"), 2),
    **dict.fromkeys(("byte", "char", "bool", "float8_e4m3fn", "float8_e5m2"), 1),
}
"""Bytes of torch's scalar types, by their names in C++ (c10/core/ScalarType.h)."""

_NO_TENSOR = frozenset({"Scalar", "ScalarList", "TensorList", "GenericList", "Int", "Bool", "Device"})


def _shapes(shapes: list[Any]) -> str | None:
    """Return the shapes of an operator's inputs, those of a list of tensors in brackets; None for no shapes."""
    texts = []
    for shape in shapes:
        nested = isinstance(shape, list) and any(isinstance(inner, list) for inner in shape)
        inputs = [_shape(inner) for inner in shape] if nested else [_shape(shape)]
        if None in inputs:
            return None
        text = " ".join(filter(None, inputs))
        texts.append(f"[{text}]" if nested else text)
    return " ".join(filter(None, texts))


def _shape(shape: object) -> str | None:
    """Return one tensor's shape; empty for an input that is no tensor, None for what is no shape."""
    if not isinstance(shape, list) or any(is_no_number(size) for size in shape):
        return None if isinstance(shape, (list, dict)) else ""
    return "x".join(map(str, shape))


def _dtypes(types: list[Any]) -> list[str] | None:
    """Return the dtypes of an operator's inputs, those inside of lists of tensors too; None for no dtypes."""
    names: set[str] = set()
    for entry in types:
        for name in entry if isinstance(entry, list) else [entry]:
            if name is not None and not isinstance(name, str):
                return None
            names.add(name or "")
    return sorted(names - _NO_TENSOR - {""})


def _shown(value: object) -> str:
    if isinstance(value, (list, dict)):
        return "[...]" if isinstance(value, list) else "{...}"
    text = str(value)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


def _header(trace: RankTrace, header: dict[str, Any]) -> None:
    """Take what is next to the events."""
    distributed = header.get("distributedInfo")
    if isinstance(distributed, dict):
        trace.rank = number(distributed.get("rank"))
        trace.world_size = number(distributed.get("world_size"), 0)
        if isinstance(distributed.get("backend"), str):
            trace.settings["collectives"] = distributed["backend"]
    devices = header.get("deviceProperties")
    if isinstance(devices, list):
        names = (str(device.get("name", "")) for device in devices if isinstance(device, dict))
        trace.device_names = tuple(name for name in names if name)
    for key in ("host_name", "hostname"):
        if isinstance(header.get(key), str):
            trace.host_name = header[key]
    for key, value in header.items():
        if key.endswith("_version") and isinstance(value, (str, int)) and not isinstance(value, bool):
            trace.settings[key] = str(value)
    own = header.get("torchferry")
    if isinstance(own, dict):
        trace.settings.update(
            (str(key), str(value)) for key, value in own.items() if isinstance(value, (str, int, float))
        )
