"""What it costs to read and compare traces, beside msprof-analyze and HolisticTraceAnalysis in the same run.

    python -m benchmarks.profiling.reading TRACE.json[.gz] ...
    python -m benchmarks.profiling.reading TRACE.json --msprof .../bin/msprof-analyze --hta .../bin/python
    python -m benchmarks.profiling.reading --large 1000        a written trace of so many megabytes

CPU seconds are user and system time of the process, its start included; memory is the largest that it held. A public
trace of a CUDA run is tests/data/nccl_parser_config/nccl_data.json.gz of facebookresearch/HolisticTraceAnalysis. Each
of the others needs an environment of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Cost, cost

_HTA = """
import logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={int(sys.argv[2]): sys.argv[1]})
print(analysis.get_temporal_breakdown(visualize=False).to_string())
print(analysis.get_gpu_kernel_breakdown(visualize=False)[0].to_string())
"""


def _events(megabytes: int) -> Iterator[str]:
    """Yield events as Kineto writes them: per operator its launch and its kernel, with the usual arguments."""
    size = 0
    number = 0
    while size < megabytes << 20:
        at = 30.0 * number
        shared = {"pid": 1, "ts": at, "args": {"External id": number, "correlation": number}}
        shapes = {
            "External id": number,
            "Input Dims": [[64, 256], [256, 256], []],
            "Input type": ["float", "float", ""],
        }
        launch_properties = {
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": number,
            "grid": [64, 1, 1],
            "block": [256, 1, 1],
        }
        events: list[dict[str, Any]] = [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 1, "dur": 12.5, **shared, "args": shapes},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "dur": 3.25, **shared},
            {"ph": "s", "id": number, "cat": "ac2g", "name": "ac2g", "tid": 1, **shared},
            {
                "ph": "X",
                "cat": "kernel",
                "name": "void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_nn>(Params)",
                "tid": 7,
                "dur": 20.125,
                **shared,
                "args": launch_properties,
            },
            {"ph": "f", "id": number, "cat": "ac2g", "name": "ac2g", "tid": 7, **shared},
        ]
        if number % 20_000 == 0:
            mark = {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{number // 20_000}",
                "tid": 1,
                "dur": 6e5,
            }
            events.insert(0, {**mark, "pid": 1, "ts": at, "args": {}})
        number += 1
        for event in events:
            text = json.dumps(event, indent=2)
            size += len(text) + 2
            yield text


def written(path: Path, megabytes: int) -> None:
    """Write a trace of about so many megabytes."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for number, text in enumerate(_events(megabytes)):
            file.write(text if number == 0 else f",\n{text}")
        file.write("\n]}\n")


def _show(name: str, measured: Cost, size: int, output: Path) -> None:
    print(
        f"{name:<44} {measured.seconds:8.2f} CPU s {measured.memory / 2**20:8.0f} MiB "
        f"{measured.memory / size:6.2f} bytes a byte" + (f"  ended with {measured.code}" if measured.code else "")
    )
    if measured.code:
        print(output.read_text(encoding="utf-8", errors="replace")[-400:])


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--msprof", default="", help="msprof-analyze of an environment that has it")
    parser.add_argument("--hta", default="", help="Python of an environment that has HolisticTraceAnalysis")
    parser.add_argument("--rank", default="0", help="rank of the traces, for HolisticTraceAnalysis")
    parser.add_argument("--large", type=int, default=0, help="megabytes of a trace to write and read")
    arguments = parser.parse_args()
    ours = [sys.executable, "-m", "torchferry", "profile"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        output = folder / "output"
        traces = list(arguments.traces)
        if arguments.large:
            traces.append(folder / "large.json")
            written(traces[-1], arguments.large)
        if not traces:
            parser.error("give a trace, or --large")
        for trace in traces:
            plain = folder / "trace.json"
            if trace.suffix == ".gz":
                plain.write_bytes(gzip.decompress(trace.read_bytes()))
            elif trace.parent != folder:
                shutil.copyfile(trace, plain)
            else:
                plain = trace
            size = plain.stat().st_size
            print(f"{trace.name}: {size / 2**20:.1f} MiB")
            _show("torchferry profile show", cost([*ours, "show", str(plain)], output), size, output)
            if trace.parent == folder:
                continue
            both = [*ours, "compare", str(plain), str(plain)]
            _show("torchferry profile compare (two traces)", cost(both, output), size, output)
            if arguments.msprof:
                command = [arguments.msprof, "compare", "-d", str(plain), "-bp", str(plain), "-o", str(folder / "x")]
                _show("msprof-analyze compare (two traces)", cost(command, output), size, output)
            if arguments.hta:
                command = [arguments.hta, "-c", _HTA, str(plain), arguments.rank]
                _show("HolisticTraceAnalysis", cost(command, output), size, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
