"""Readers of traces, logs, records of runs, calls, and what a run left."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.table import ROOT, SEEDS, as_json, is_chosen, reader, run_command, text_of, written
from torchferry.core.errors import TorchferryError

# --- traces ---


def _traces() -> list[bytes]:
    from tests.profiling.test_reading import NPU_ROWS
    from tests.profiling.traces import host, kineto, two_steps

    lists: dict[str, Any] = {
        "Input Dims": [[[4, 4], [2, 4]], []],
        "Input type": [["float"], "Scalar"],
        "Input Strides": [[4, 1]],
    }
    memory = {"Device Type": 1, "Device Id": 0, "Total Allocated": 10, "Total Reserved": 20}
    events = [
        *two_steps(),
        host("cpu_op", "aten::cat", 5, 2, **lists),
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": memory},
    ]
    more = {"distributedInfo": {"rank": 1, "world_size": 2, "backend": "nccl"}, "torch_version": "2"}
    return [as_json(kineto(events, **more)), as_json(NPU_ROWS)]


def _shown(path: Path, data: bytes) -> None:
    from torchferry.cli.writing import write
    from torchferry.core.json_text import json_text
    from torchferry.profiling import flame, report
    from torchferry.profiling.comparison import open_run
    from torchferry.profiling.page import summary_page
    from torchferry.profiling.summary import BY

    run = open_run(path)
    for by in BY if is_chosen(data) else BY[len(data) % len(BY) :][:1]:
        "\n".join(report.show_lines(run, by, 15, "en"))
    if is_chosen(data):
        write(report.summary_csv(run, "shape"), path.with_name("x.csv"))
        write(json_text(report.summary_document(run)), path.with_name("x.json"))
        write(summary_page(run, "zh"), path.with_name("x.html"))
        write(flame.draw(run.first, "en"), path.with_name("x.svg"))


@reader("trace", "json", "profiling/event_stream.py", more=_traces)
def _trace(folder: Path, data: bytes) -> None:
    name = "trace_view.json" if data.lstrip()[:1] == b"[" else "t.pt.trace.json"
    _shown(written(folder, name, data), data)


@reader(
    "trace-gz", "bytes", "profiling/event_stream.py", more=lambda: [gzip.compress(each, mtime=0) for each in _traces()]
)
def _trace_gz(folder: Path, data: bytes) -> None:
    _shown(written(folder, "t.pt.trace.json.gz", data), data)


def _kernel_tables() -> list[bytes]:
    from tests.profiling.test_reading import KERNELS

    return [KERNELS.encode()]


@reader("kernel-table", "text", "profiling/kernel_table.py", more=_kernel_tables)
def _kernel_table(folder: Path, data: bytes) -> None:
    _shown(written(folder, "kernel_details.csv", data), data)


@reader("trace-compared", "json", "profiling/event_stream.py", more=_traces)
def _trace_compared(folder: Path, data: bytes) -> None:
    first = written(folder, "a.pt.trace.json", _traces()[0])
    run_command("profile", "compare", first, written(folder, "b.pt.trace.json", data), "-f", "json")


# --- logs and curves ---


def _read_log(folder: Path, data: bytes, name: str) -> None:
    from torchferry.acceptance.metrics import find_values, names_of
    from torchferry.numerics.curves.curve import Habits, curve_of
    from torchferry.numerics.curves.reading import Wanted, read

    path = written(folder, name, data)
    read(path, Wanted(every=True))
    for ranks in read(path, Wanted()).points.values():
        curve_of(ranks, Habits())
    for metric in ("loss", "val_mIoU", "IoU"):
        find_values(path, metric)
    names_of(path)


@reader(
    "logs", "text", "numerics/curves/records.py", "numerics/curves/reading.py", "numerics/curves/text_log.py",
    "acceptance/metrics.py",
)  # fmt: skip
def _logs(folder: Path, data: bytes) -> None:
    first = data.lstrip()[:1]
    _read_log(folder, data, "a.csv" if data[:5] == b"step," else "a.jsonl" if first and first in b"{[" else "a.log")


def _failed_jobs() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "examples" / "failed-job").glob("*.log"))]


@reader("failed-job", "text", "diagnosis/inputs.py", more=_failed_jobs)
def _failed_job(folder: Path, data: bytes) -> None:
    for form in ("text", "json", "html") if is_chosen(data) else ("text",):
        run_command("explain", written(folder, "rank_0.log", data), "-f", form, "-o", folder / f"x.{form}")


def _launches() -> list[bytes]:
    from tests.triton.test_signatures import launch_of

    return [as_json({"triton_launches": [launch_of()], "triton_launches_left_out": 0})]


@reader("triton-launches", "json", "triton/recorded.py", more=_launches)
def _triton_launches(folder: Path, data: bytes) -> None:
    from tests.triton.projects import HEAD, request_for
    from tests.triton.test_signatures import KERNEL
    from torchferry.triton.recorded import read_launches, recorded_signatures

    _, _, kernels = request_for(folder, {"k.py": HEAD + KERNEL})
    recorded_signatures(read_launches(written(folder, "run.json", data)).launches, kernels, folder)


def _stored_logs() -> list[bytes]:
    return [path.read_bytes() for path in sorted((SEEDS / "logs").glob("*"))]


@reader("logs-json", "lines", "numerics/curves/records.py", more=lambda: _stored_logs()[1:4])
def _logs_json(folder: Path, data: bytes) -> None:
    _read_log(folder, data, "a.json")


def _event_files() -> list[bytes]:
    def field(number: int, kind: int, data: bytes) -> bytes:
        return bytes([number << 3 | kind]) + (bytes([len(data)]) if kind == 2 else b"") + data

    def event(tag: str, step: int, value: float) -> bytes:
        summary = field(1, 2, field(1, 2, tag.encode()) + field(2, 5, struct.pack("<f", value)))
        return field(1, 1, struct.pack("<d", 1.5)) + field(2, 0, bytes([step])) + field(5, 2, summary)

    events = [field(1, 1, struct.pack("<d", 1.5)) + field(3, 2, b"brain.Event:2")]
    events += [event("train/loss", 1, 0.5), event("lr", 1, 0.1), event("train/loss", 2, 0.25)]
    return [b"".join(struct.pack("<QI", len(each), 0) + each + b"\0\0\0\0" for each in events)]


@reader("event-file", "bytes", "numerics/curves/reading.py", more=_event_files)
def _event_file(folder: Path, data: bytes) -> None:
    _read_log(folder, data, "events.out.tfevents.1")


@reader("curves-compared", "text", "numerics/curves/reading.py", more=lambda: _stored_logs()[:2])
def _curves_compared(folder: Path, data: bytes) -> None:
    first = written(folder, "a.log", "".join(f"step {n} loss: {1 / n}\n" for n in range(1, 40)).encode())
    run_command("compare", "curves", first, written(folder, "b.log", data), "-f", "json")


# --- records of runs ---

_OF_RUNS = ("torch", "safetensors")


@cache
def _recorded() -> dict[str, bytes]:
    """Return the files of a small record, by their paths."""
    from tests.numerics.recorded import Told, record

    with tempfile.TemporaryDirectory() as folder:
        made = record(Path(folder) / "r", Told(steps=2))
        return {path.relative_to(made).as_posix(): path.read_bytes() for path in made.rglob("*") if path.is_file()}


@cache
def _good_run() -> Any:
    from torchferry.numerics.runlog.record import read_record

    folder = Path(tempfile.mkdtemp())
    for path, content in _recorded().items():
        written(folder / "r", path, content)
    return read_record(folder / "r")


def _read_run(folder: Path, replaced: str, data: bytes) -> None:
    from torchferry.numerics.rundiff.comparison import compare
    from torchferry.numerics.runlog.record import read_record

    for path, content in _recorded().items():
        written(folder / "r", path, data if path == replaced else content)
    record = read_record(folder / "r")
    for rank in record.ranks:
        for step in rank.steps:
            rows = step.rows()
            if rows is not None:
                assert (len(rows.norms), len(rows.least)) == (len(rows.lengths), len(rows.marks))
    if is_chosen(data):
        compare(record, _good_run())


def _sealed(data: bytes) -> bytes:
    """Seal each line again: who means harm does so, and a checksum would otherwise keep all of them out."""
    from torchferry.numerics.runlog.layout import sealed

    lines = []
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, AttributeError, TypeError, RecursionError):
            found = json.loads(line)
            found.pop("crc32", None)
            line = sealed(found)
        lines.append(line)
    return b"\n".join(lines)


def _add_runs() -> None:
    rows = {
        "run-steps": ("lines", "steps.jsonl"),
        "run-document": ("lines", ".json"),
        "run-tensors": ("tensors", ".safetensors"),
    }
    for name, (form, ending) in rows.items():

        def path_of(ending: str = ending) -> str:
            return next(path for path in sorted(_recorded()) if path.endswith(ending))

        def read(folder: Path, data: bytes, form: str = form, path_of: Any = path_of) -> None:
            _read_run(folder, path_of(), _sealed(data) if form == "lines" else data)

        def more(path_of: Any = path_of) -> list[bytes]:
            _good_run()  # made before the round, which counts what is written
            return [_recorded()[path_of()]]

        reader(name, form, "numerics/runlog/container.py", more=more, needs=_OF_RUNS)(read)


_add_runs()


@cache
def _call() -> dict[str, bytes]:
    """Return the files of a call, by their names."""
    import torch

    from torchferry.numerics import replay

    add = torch.ops.aten.add.Tensor
    with tempfile.TemporaryDirectory() as folder:
        made = replay.write(Path(folder), add, (torch.ones(4), torch.ones(4)), {"alpha": 2.0}, None, {})
        return {path.name: path.read_bytes() for path in made.iterdir()}


def _replayed(folder: Path, name: str, data: bytes) -> None:
    for path, content in _call().items():
        if path.endswith((".json", ".safetensors")):
            written(folder / "c", path, data if path == name else content)
    run_command("replay", folder / "c")


@reader("call", "json", "numerics/callfile/reading.py", more=lambda: [_call()["call.json"]], needs=("torch",))
def _call_json(folder: Path, data: bytes) -> None:
    _replayed(folder, "call.json", data)


_TENSORS = "tensors.safetensors"


def _pickled_calls() -> list[bytes]:
    import torch

    inputs = {"args": (torch.ones(2, 3), [torch.zeros(3).half()], 1.5), "kwargs": {"dtype": torch.float16}}
    return [pickle.dumps(inputs), pickle.dumps({"args": (torch.ones(2).t(),), "kwargs": {}}, protocol=3)]


@reader("call-pickled", "bytes", "numerics/callfile/pickled_dump.py", more=_pickled_calls, needs=("torch",))
def _call_pickled(folder: Path, data: bytes) -> None:
    from torchferry.numerics import replay

    replay.read(written(folder, "torch.ops.aten.relu_inputs.pkl", data), "cpu")


@reader("call-tensors", "tensors", "numerics/callfile/reading.py", more=lambda: [_call()[_TENSORS]], needs=("torch",))
def _call_tensors(folder: Path, data: bytes) -> None:
    _replayed(folder, _TENSORS, data)


# --- what a run left ---


def _seen() -> list[bytes]:
    from torchferry.shim.call_sites import SCHEMA

    site = {"path": "train.py", "line": 2, "name": "Tensor.cuda", "times": 3}
    files = {"train.py": "0" * 64}
    report = {"torchferry": "1", "target": "npu", "root": "/x", "files": files, "sites": [site]}
    return [as_json({"schema": SCHEMA, **report})]


@reader("seen-report", "json", "rules/runtime/report.py", "rules/runtime/merge.py", more=_seen)
def _seen_report(folder: Path, data: bytes) -> None:
    from torchferry.rules.runtime.report import read_runtime_report

    written(folder, "train.py", b"import torch\ntorch.zeros(1).cuda()\n")
    read_runtime_report(written(folder, "seen.json", data), folder)
    if is_chosen(data):
        run_command("scan", folder, "-t", "npu", "--seen", folder / "seen.json", "-f", "json", "--jobs", "1")


@reader("call-sites", "lines", "shim/call_sites.py")
def _call_sites(folder: Path, data: bytes) -> None:
    from torchferry.shim.call_sites import collect

    written(folder, "seen-1.jsonl", data)
    written(folder, "seen-2.jsonl", b"")
    written(folder, "sites-2.json", data)
    collect(folder, "npu", folder)


@reader("rehearsal-profile", "text", "rehearsal/profile.py")
def _rehearsal_profile(folder: Path, data: bytes) -> None:
    from torchferry.backends.target import Target
    from torchferry.rehearsal.profile import Profile, make_profile

    made = make_profile(Target.named("musa"), file=written(folder, "card.toml", data))
    assert Profile.from_json(made.to_json()) == made


def _collected(folder: Path) -> None:
    from torchferry.rehearsal.aggregate import collect
    from torchferry.rehearsal.ending import end_of

    end_of(collect(folder), 1, "", Path("/tree"))


@reader("session", "json", "rehearsal/aggregate.py", "rehearsal/config.py")
def _session(folder: Path, data: bytes) -> None:
    written(folder, "process-1.json", data)
    _collected(folder)


@reader("session-events", "lines", "rehearsal/aggregate.py")
def _session_events(folder: Path, data: bytes) -> None:
    written(folder, "first-3.jsonl", data)
    _collected(folder)


@reader("ending", "text", "rehearsal/config.py")
def _ending(folder: Path, data: bytes) -> None:
    from torchferry.rehearsal.aggregate import Aggregate
    from torchferry.rehearsal.ending import end_of

    end_of(Aggregate(1, 1, 0, (4,), {"aten::add": 1}, (), ()), 1, text_of(data), Path("/tree"))


def _needs() -> list[bytes]:
    from tests.ops.test_request import REHEARSAL, RUN

    return [RUN.to_json().encode(), as_json({**REHEARSAL, "target": "gcu"})]


@reader("operators-of-run", "json", "ops/listfile.py", more=_needs)
def _operators_of_run(folder: Path, data: bytes) -> None:
    run_command("ops", "request", "-t", "gcu", written(folder, "ops.json", data))


@reader("operators-reported", "json", "ops/listfile.py", more=lambda: _needs()[:1])
def _operators_reported(folder: Path, data: bytes) -> None:
    run_command("ops", "report", "-t", "gcu", written(folder, "ops.json", data), "-f", "json")


@reader("operators-of-plugin", "text", "ops/codegen/document.py", needs=("yaml",))
def _operators_of_plugin(folder: Path, data: bytes) -> None:
    from torchferry.ops.codegen.document import read_document
    from torchferry.ops.codegen.entries import entries_of

    path = written(folder, "functions.yaml", data)
    entries_of(read_document(path), path)


# --- outputs that are held against a reference ---


def _judged(folder: Path, kind: str, suffix: str, data: bytes, other: bytes) -> None:
    from tests.acceptance.test_outputs import judged
    from torchferry.acceptance.acceptfile import OutputTerms

    written(folder, f"own/x{suffix}", data)
    written(folder, f"reference/x{suffix}", other)
    judged(folder, OutputTerms(kind, "own", "reference"))


def _arrays() -> list[bytes]:
    import numpy

    made = []
    for array in (numpy.ones((2, 3), "float32"), numpy.arange(4), numpy.zeros(0)):
        out = io.BytesIO()
        numpy.save(out, array)
        made.append(out.getvalue())
    return made


@reader("arrays", "bytes", "acceptance/outputs.py", more=_arrays, needs=("numpy",))
def _read_arrays(folder: Path, data: bytes) -> None:
    _judged(folder, "array", ".npy", data, _arrays()[0])


def _archives() -> list[bytes]:
    import numpy

    out = io.BytesIO()
    numpy.savez(out, a=numpy.ones(3), b=numpy.arange(2))
    return [out.getvalue()]


@reader("array-archives", "bytes", "acceptance/outputs.py", more=_archives, needs=("numpy",))
def _read_archives(folder: Path, data: bytes) -> None:
    _judged(folder, "array", ".npz", data, _archives()[0])


def _pictures() -> list[bytes]:
    from PIL import Image

    made = []
    for form in ("PNG", "BMP", "TIFF", "GIF", "JPEG"):
        out = io.BytesIO()
        Image.new("RGB", (12, 9), (1, 200, 3)).save(out, form)
        made.append(out.getvalue())
    return made


@reader("pictures", "bytes", "acceptance/outputs.py", more=_pictures, needs=("numpy", "PIL"))
def _read_pictures(folder: Path, data: bytes) -> None:
    _judged(folder, "image", ".png", data, _pictures()[0])


# --- what a rehearsal reads before it runs ---

_NOTEBOOK = {"cells": [{"cell_type": "code", "source": ["x = 1\n"]}, {"cell_type": "markdown", "source": "# title"}]}
_PIP = b"""Downloading torch-2.9.0-cp311-cp311-linux_x86_64.whl (180.0 MB)
Progress 100 of 200
ERROR: Could not find a version that satisfies the requirement torch==2.9.0 (from versions: 2.8.0, 2.9.1+cpu)
The conflict is caused by:
    The user requested torch==2.9.0
"""


@reader("notebook-cells", "json", "core/notebook_cells.py", more=lambda: [as_json(_NOTEBOOK)])
def _notebook_cells(folder: Path, data: bytes) -> None:
    from torchferry.core.notebook_cells import _read

    _read(written(folder, "train.ipynb", data))


@reader(
    "torch-build",
    "text",
    "rehearsal/driver/torch_build.py",
    more=lambda: [b"cuda: str = '13.0'\n", b"torch==2.9.1+cpu"],
)
def _torch_build(folder: Path, data: bytes) -> None:
    from torchferry.rehearsal.driver.torch_build import _asks_for_cpu, texts_set_in

    texts_set_in(written(folder, "version.py", data))
    _asks_for_cpu(text_of(data))


@reader("plugin-library", "bytes", "rehearsal/driver/plugin_state.py", more=lambda: [b"\x7fELF\x02\x01" + bytes(58)])
def _plugin_library(folder: Path, data: bytes) -> None:
    from torchferry.backends import registry
    from torchferry.rehearsal.driver.plugin_state import cut_library

    (folder / "torch_npu").mkdir(exist_ok=True)
    written(folder / "torch_npu", "_C.so", data)
    cut_library(registry.load("npu"), str(folder))


@reader(
    "kept-environment", "json", "rehearsal/environments/store.py", more=lambda: [as_json({"holds": ["torch==2.9.0"]})]
)
def _kept_environment(folder: Path, data: bytes) -> None:
    from torchferry.rehearsal.environments.store import _MADE, _read

    written(folder, _MADE, data)
    _read(folder)


@reader(
    "pip-output", "text", "rehearsal/environments/package_installer.py", "rehearsal/environments/request.py",
    more=lambda: [_PIP],
)  # fmt: skip
def _pip_output(folder: Path, data: bytes) -> None:
    from torchferry.core.messages import say
    from torchferry.core.progress import Work
    from torchferry.rehearsal.environments.package_installer import _explained, _tell
    from torchferry.rehearsal.environments.request import _parsed

    lines, work = text_of(data).splitlines(), Work(say("asking pip's indexes"))
    for line in lines:
        _tell(work, line)
        with contextlib.suppress(TorchferryError):
            _parsed(line)
    _explained(["torch==2.9.0"], lines).message.render("en")
