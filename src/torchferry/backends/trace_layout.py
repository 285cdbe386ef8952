"""How traces of profilers name what belongs to a vendor: kernels that communicate, and rows of its own layout.

`torch.profiler` gives each event a category, and most vendors' profilers write through it. Where one writes a trace of
its own, in which the name of the process says what its rows are, `traces.toml` of the vendor says how::

    [sources]
    SRC = "the plugin's documentation"

    [communication]
    names = ["acmecomm_"]           # parts of names of kernels that communicate, beside the collectives' own name
    source = "SRC"

    [processes]                     # only where rows have no category
    work = ["Acme Hardware"]        # what the device did
    communication = ["ACCL"]        # what the device did to communicate
    runtime = ["Driver"]            # calls into the driver's libraries
    derived = ["Overlap"]           # computed from the others
    link = "async_acme"             # category of the arrows from an operator to what the device did for it
    source = "SRC"

    [files]                         # only where a folder holds several files
    trace = ["trace.json"]          # names of the file with the events
    rank = 'info_(\\d+)\\.json'     # the name of a file beside or above it says the rank
    source = "SRC"

    [kernels]                       # only where a table of kernels is written beside the trace
    files = ["kernels.csv"]
    kernel = "Name"                 # the columns: name, start and duration in microseconds, device, stream, step
    start = "Start"
    duration = "Duration"
    device = "Device"
    stream = "Stream"
    step = "Step"
    source = "SRC"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from torchferry.backends import registry
from torchferry.backends.datafile import DATA, DataFile, data_file

_SECTIONS = {
    "communication": frozenset({"names", "source"}),
    "processes": frozenset({"work", "communication", "runtime", "derived", "link", "source"}),
    "files": frozenset({"trace", "rank", "source"}),
    "kernels": frozenset({"files", "kernel", "start", "duration", "device", "stream", "step", "source"}),
}


@dataclass(frozen=True)
class KernelColumns:
    """A table with a row for each kernel, beside a trace or in its place.

    Attributes:
        name: The target.
        files: Names of the files; none where the vendor has no such table.
        kernel: The column with the kernel's name.
        start: That with its start, in microseconds.
        duration: That with its duration, in microseconds.
        device: That with the number of the device; may be missing in a file.
        stream: That with the number of the stream; may be missing in a file.
        step: That with the number of the step; may be missing in a file.
    """

    name: str
    files: tuple[str, ...] = ()
    kernel: str = ""
    start: str = ""
    duration: str = ""
    device: str = ""
    stream: str = ""
    step: str = ""


@dataclass(frozen=True)
class TraceLayout:
    """What one vendor's traces call things.

    Attributes:
        name: The target; `cuda` for the side that programs come from.
        communication: Parts of names of kernels that communicate, in lower case.
        work_processes: Processes whose rows are what the device did.
        communication_processes: Processes whose rows are what the device did to communicate.
        runtime_processes: Processes whose rows are calls into the driver's libraries.
        derived_processes: Processes whose rows are computed from others.
        link: Category of the arrows from operators to what the device did for them.
        files: Names of files with events in a folder.
        rank_file: Pattern of the name of a file that says the rank; None without one.
        kernels: The table of kernels that the profiler writes beside its trace.
    """

    name: str
    communication: tuple[str, ...]
    work_processes: tuple[str, ...] = ()
    communication_processes: tuple[str, ...] = ()
    runtime_processes: tuple[str, ...] = ()
    derived_processes: tuple[str, ...] = ()
    link: str = ""
    files: tuple[str, ...] = ()
    rank_file: re.Pattern[str] | None = None
    kernels: KernelColumns = KernelColumns("")


_COLUMNS = ("kernel", "start", "duration", "device", "stream", "step")


@lru_cache(maxsize=1)
def trace_layouts() -> tuple[TraceLayout, ...]:
    """Return the layouts of the side that programs come from and of all backends.

    Raises:
        ValueError: a file is wrong; says which and where.
    """
    layouts = [_layout("cuda", (), DataFile(DATA / "cuda" / "traces.toml"))]
    for name in registry.names():
        backend = registry.load(name)
        path = data_file(backend, "traces.toml")
        collective = (backend.COLLECTIVE.lower(),) if isinstance(backend.COLLECTIVE, str) else ()
        layouts.append(_layout(name, collective, None if path is None else DataFile(path)))
    return tuple(layouts)


def _layout(name: str, collective: tuple[str, ...], data: DataFile | None) -> TraceLayout:
    if data is None:
        return TraceLayout(name, collective)
    data.check_keys(data.document, frozenset({"sources", *_SECTIONS}), "the file")
    tables = {section: data.table(section) for section in _SECTIONS}
    for section, table in tables.items():
        if table:
            data.check_keys(table, _SECTIONS[section], section)
            data.cited(table, section)
    processes, files = tables["processes"], tables["files"]
    rank = data.text(files, "rank", "files")
    return TraceLayout(
        name,
        (*collective, *(text.lower() for text in data.texts(tables["communication"], "names", "communication"))),
        data.texts(processes, "work", "processes"),
        data.texts(processes, "communication", "processes"),
        data.texts(processes, "runtime", "processes"),
        data.texts(processes, "derived", "processes"),
        data.text(processes, "link", "processes"),
        data.texts(files, "trace", "files"),
        re.compile(rank) if rank else None,
        KernelColumns(
            name,
            data.texts(tables["kernels"], "files", "kernels"),
            *(data.text(tables["kernels"], column, "kernels") for column in _COLUMNS),
        ),
    )


@lru_cache(maxsize=1)
def communication_names() -> re.Pattern[str]:
    """Return a pattern that finds the name of a kernel that communicates, in lower case, of any vendor."""
    names = sorted({name for layout in trace_layouts() for name in layout.communication})
    return re.compile("|".join(map(re.escape, names)))
