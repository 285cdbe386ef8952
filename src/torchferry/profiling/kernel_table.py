"""Tables of kernels that a vendor's profiler writes beside its trace, one row each: read alone, or to check the trace.

`traces.toml` of the vendor names the files and their columns. A table knows nothing of the host: its steps are what the
device did for them, from the first kernel of one to the first of the next.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from torchferry.backends.trace_layout import KernelColumns, communication_names, trace_layouts
from torchferry.core.errors import TorchferryError
from torchferry.core.files import open_regular
from torchferry.core.messages import Message, say, say_plural
from torchferry.profiling.intervals import Interval
from torchferry.profiling.records import ANNOTATION, DeviceWork, HostCall, RankTrace
from torchferry.profiling.values import kind_by_name, nanoseconds, number

_AGREES = 0.001
"""Share by which the time of the same kernels may differ in two files: both round it."""

_REPORTED = 1 << 20
"""Bytes after which the progress is told."""


def kernel_table(path: Path) -> KernelColumns | None:
    """Return the table that a file is by its name; None for one that is none."""
    return next((layout.kernels for layout in trace_layouts() if path.name in layout.kernels.files), None)


def read_kernels(path: Path, table: KernelColumns, progress: Callable[[int], None] | None = None) -> RankTrace:
    """Return what a table of kernels says.

    Raises:
        TorchferryError: the file cannot be read, lacks a column, or has no row with a time.
    """
    trace = RankTrace(str(path), form=table.name)
    communication = communication_names()
    steps: dict[str, list[Interval]] = defaultdict(list)
    without = 0
    for row in _rows(path, table, trace, progress):
        start, length = (nanoseconds(row.get(column, "").strip()) for column in (table.start, table.duration))
        if start is None or length is None or length < 0:
            without += 1
            continue
        name = row[table.kernel]
        device, stream = number(row.get(table.device, "").strip(), 0), number(row.get(table.stream, "").strip())
        kind = kind_by_name(name, communication)
        trace.work.append(DeviceWork(kind, name, start, start + length, device, stream))
        steps[row.get(table.step, "").strip()].append((start, start + length))
    if not trace.work:
        raise TorchferryError(
            say("{path} holds nothing that can be measured: neither calls of the host nor work of a device", path=path),
            say("no row has a time in the columns {names}", names=f"{table.start}, {table.duration}"),
        )
    if without:
        trace.faults.append(say_plural("{count} row has no time", "{count} rows have no time", count=without))
    trace.threads = ["-"]
    trace.calls = [
        HostCall(ANNOTATION, f"ProfilerStep#{step}", min(start for start, _ in spans), max(end for _, end in spans), 0)
        for step, spans in steps.items()
        if step
    ]
    trace.notes.append(
        say(
            "a table of kernels has no data of the host: no operators, modules or waits; a step has only "
            "what the device did"
        )
    )
    return trace


def _rows(
    path: Path, table: KernelColumns, trace: RankTrace, progress: Callable[[int], None] | None
) -> Iterator[dict[str, str]]:
    """Yield the rows by column; what is wrong with a row ends the table, and is a fault of the trace."""
    told = 0
    try:
        with open_regular(path) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")
            reader = csv.reader(text)
            try:
                heads = next(reader, [])
                missing = [name for name in (table.kernel, table.start, table.duration) if name not in heads]
                if missing:
                    raise TorchferryError(
                        say(
                            "{path} lacks the columns {names}",
                            path=path,
                            names=", ".join(missing),
                        ),
                        say("give the table as the profiler wrote it, or the trace"),
                    )
                for cells in reader:
                    trace.size = raw.tell()
                    if progress is not None and trace.size - told >= _REPORTED:
                        told = trace.size
                        progress(told)
                    if len(cells) != len(heads):
                        trace.faults.append(
                            say(
                                "the table is incomplete: line {line} has too few or too many cells",
                                line=reader.line_num,
                            )
                        )
                        return
                    yield dict(zip(heads, cells, strict=True))
            except csv.Error as error:
                trace.faults.append(say("the table is incomplete: {error}", error=error))
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=path, error=error.strerror or error)) from None


def compared_with_table(trace: RankTrace, path: Path) -> list[Message]:
    """Return how a trace and the table of kernels beside it differ, for kernels that both name.

    Args:
        trace: What the trace says.
        path: The trace's file.
    """
    for layout in trace_layouts():
        for name in layout.kernels.files if path.name in layout.files else ():
            beside = path.with_name(name)
            if not beside.is_file() or beside.is_symlink():
                continue
            try:
                table = read_kernels(beside, layout.kernels)
            except TorchferryError as error:
                return [say("{path} was not compared: {error}", path=beside.name, error=error.message)]
            return _difference(trace, table, beside.name)
    return []


def _difference(trace: RankTrace, table: RankTrace, name: str) -> list[Message]:
    sides = [_by_name(each) for each in (trace, table)]
    both = sides[0].keys() & sides[1].keys()
    if not both:
        return [say("{path} beside the trace names none of its kernels", path=name)]
    counts = [sum(side[kernel][0] for kernel in both) for side in sides]
    times = [sum(side[kernel][1] for kernel in both) for side in sides]
    if counts[0] == counts[1] and abs(times[0] - times[1]) <= _AGREES * max(times):
        return []
    return [
        say(
            "kernels that both name: {path} beside the trace has {there} with {theirs} ms, the trace has "
            "{here} with {ours} ms",
            path=name,
            there=counts[1],
            theirs=f"{times[1] / 1e6:.3f}",
            here=counts[0],
            ours=f"{times[0] / 1e6:.3f}",
        )
    ]


def _by_name(trace: RankTrace) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for work in trace.work:
        count, time = sums.get(work.name, (0, 0))
        sums[work.name] = (count + 1, time + work.end - work.start)
    return sums
