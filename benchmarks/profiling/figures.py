"""The figures of `torchferry profile` beside those of HolisticTraceAnalysis, on public traces of CUDA.

    python -m benchmarks.profiling.figures TRACE.json.gz ... --hta .../bin/python

The traces of its own tests are in tests/data of facebookresearch/HolisticTraceAnalysis. It needs an environment of its
own (`pip install HolisticTraceAnalysis`). Both read the whole trace; times are microseconds. As there, work that
was queued before the recording is left out, and queues count the four calls that it takes for launches. A figure that
differs by more than what comes of its times, which it cuts to whole microseconds, is marked.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchferry.profiling.critical_path import LINKS
from torchferry.profiling.intervals import length, union
from torchferry.profiling.launches import launch_rows, overlap, queue_rows
from torchferry.profiling.reading import read
from torchferry.profiling.records import COMPUTE
from torchferry.profiling.steps import TimedStep
from torchferry.profiling.summary import summarise

_HTA = """
import json, logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
found = {}
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
time = analysis.get_temporal_breakdown(visualize=False).iloc[0]
found["compute"] = float(time["compute_time(us)"])
found["kernels and idle"] = float(time["kernel_time(us)"])
try:
    found["overlap %"] = float(analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"])
except Exception:
    pass
calls = analysis.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
found["launches"] = len(calls)
for name in ("cpu_duration", "gpu_duration", "launch_delay"):
    found["median " + name] = float(calls[name].median())
found["longest launch_delay"] = float(calls.launch_delay.max())
for (_, stream), row in analysis.get_queue_length_summary(ranks=[0]).iterrows():
    found[f"queue {stream} mean"] = float(row[("queue_length", "mean")])
    found[f"queue {stream} most"] = float(row[("queue_length", "max")])
try:
    graph, well = analysis.critical_path_analysis(rank=0, annotation=sys.argv[2], instance_id=0)
    shares = graph.summary() if well else {}
    print({str(key): float(value) for key, value in shares.items()}, file=sys.stderr)
except Exception as error:
    print("no critical path:", type(error).__name__, file=sys.stderr)
print("FIGURES" + json.dumps(found))
"""

_OF_HTA = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
"""Calls that it takes for launches (hta/common/trace_symbol_table.py)."""


def _ours(path: Path) -> tuple[dict[str, float], str]:
    trace = read(path)
    summary = summarise(trace)
    device = summary.device
    recorded = [work for number, work in enumerate(trace.work) if number not in summary.links.leading]
    own = [work for work in recorded if work.device == device]
    begin, end = min(work.start for work in own), max(work.end for work in own)
    whole = TimedStep("", (begin, end), ())
    found: dict[str, float] = {
        "compute": length(union((work.start, work.end) for work in own if work.kind == COMPUTE)) / 1e3,
        "kernels and idle": (end - begin) / 1e3,
    }
    hidden = overlap(replace(trace, work=recorded), device, [whole]).share
    found["overlap %"] = float("nan") if hidden is None else 100 * hidden
    pairs = [
        (call.end - call.start, work.end - work.start, max(work.start - call.end, 0))
        for work, index in zip(trace.work, summary.links.launch, strict=True)
        if index >= 0 and (call := trace.calls[index]).name in _OF_HTA
    ]
    found["launches"] = sum(row.calls for row in launch_rows(trace, summary.links) if row.name in _OF_HTA)
    for place, name in enumerate(("cpu_duration", "gpu_duration", "launch_delay")):
        found[f"median {name}"] = statistics.median(pair[place] for pair in pairs) / 1e3
    found["longest launch_delay"] = max(pair[2] for pair in pairs) / 1e3
    counted = [index if index >= 0 and trace.calls[index].name in _OF_HTA else -1 for index in summary.links.launch]
    for row in queue_rows(trace, replace(summary.links, launch=counted)):
        found[f"queue {row.stream} mean"] = row.mean
        found[f"queue {row.stream} most"] = row.most
    if summary.path is None:
        return found, ""
    whole_path = sum(summary.path.parts)
    shares = {name: round(100 * time / whole_path, 1) for name, time in zip(LINKS, summary.path.parts, strict=True)}
    print(f"  critical path of {summary.path.step or 'the trace'}: {shares}")
    return found, summary.path.step


def _theirs(python: str, path: Path, step: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-c", _HTA, str(path.absolute()), step], capture_output=True, text=True, check=False, env={"PATH": ""}
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("FIGURES")), "")
    if not line:
        print("  HolisticTraceAnalysis failed:", done.stderr.strip().splitlines()[-1:])
        return {}
    print("  critical path of HolisticTraceAnalysis:", (done.stderr.strip().splitlines() or ["-"])[-1])
    figures: dict[str, Any] = json.loads(line.removeprefix("FIGURES"))
    return figures


def main() -> int:
    """Print a table for each trace; end with the number of figures that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--hta", required=True, help="Python of an environment that has HolisticTraceAnalysis")
    arguments = parser.parse_args()
    differing = 0
    for path in arguments.traces:
        print(path.name)
        ours, step = _ours(path)
        theirs = _theirs(arguments.hta, path, step)
        for name, value in theirs.items():
            own = ours.get(name)
            both = own is not None and (own == own) == (value == value)  # neither is NaN, or both are
            near = both and not abs((own or 0.0) - value) > max(1.5, 0.03 * value)
            differing += not near
            shown = "-" if own is None else f"{own:.3f}"
            print(f"  {name:<28} {shown:>14} {value:>14.3f}{'' if near else '  DIFFERS'}")
    return differing


if __name__ == "__main__":
    sys.exit(main())
