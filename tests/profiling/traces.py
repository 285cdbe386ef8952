"""Small traces, written as the profilers write them. Times are in microseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HOST, AUTOGRAD, DEVICE = 4711, 4712, 0


def host(category: str, name: str, start: float, length: float, thread: int = HOST, **arguments: Any) -> dict[str, Any]:
    """Return a call of the host."""
    event = {"ph": "X", "cat": category, "name": name, "pid": HOST, "tid": thread, "ts": start, "dur": length}
    return {**event, "args": arguments}


def work(
    category: str, name: str, start: float, length: float, correlation: int, stream: int = 7, **arguments: Any
) -> dict[str, Any]:
    """Return a work of the device."""
    arguments = {"device": DEVICE, "stream": stream, "correlation": correlation, **arguments}
    event = {"ph": "X", "cat": category, "name": name, "pid": DEVICE, "tid": stream, "ts": start, "dur": length}
    return {**event, "args": arguments}


def launched(
    operator: str, start: float, kernel_start: float, length: float, correlation: int, **arguments: Any
) -> list[Any]:
    """Return an operator that starts one kernel: on the host it takes 10, and the launch is in its middle."""
    return [
        host("cpu_op", operator, start, 10, **arguments),
        host("cuda_runtime", "cudaLaunchKernel", start + 4, 2, correlation=correlation),
        work("kernel", f"kernel_of_{operator}", kernel_start, length, correlation),
    ]


def step(number: int, start: float, length: float) -> dict[str, Any]:
    """Return the mark of a step."""
    return host("user_annotation", f"ProfilerStep#{number}", start, length)


def linear(shape: Sequence[int] = (16, 8), dtype: str = "float") -> dict[str, Any]:
    """Return the arguments of an operator that multiplies."""
    return {"Input Dims": [list(shape), [8, 4], []], "Input type": [dtype, dtype, "Scalar"]}


def two_steps(scale: float = 1.0, **arguments: Any) -> list[dict[str, Any]]:
    """Return two steps of 100: each computes, copies and communicates, and the device is idle in between."""
    events: list[dict[str, Any]] = []
    for number in (0, 1):
        at = 100.0 * scale * number
        first = 10 * number + 1
        events += [
            step(number, at, 100 * scale),
            host("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 10),
            *launched("aten::addmm", at + 12, at + 20, 30 * scale, first, **(arguments or linear())),
            *launched("c10d::allreduce_", at + 25, at + 20 + 20 * scale, 20 * scale, first + 1),
            host("cpu_op", "aten::copy_", at + 40, 20),
            host("cuda_runtime", "cudaMemcpyAsync", at + 42, 5, correlation=first + 2),
            host("cuda_runtime", "cudaStreamSynchronize", at + 48, 10, correlation=first + 3),
            work("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 70 * scale, 5 * scale, first + 2, bytes=4096),
        ]
    for event in events:
        if event["name"] == "kernel_of_c10d::allreduce_":
            event["name"] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
            event["args"]["stream"] = event["tid"] = 20
    return events


def kineto(events: Sequence[dict[str, Any]], **header: Any) -> dict[str, Any]:
    """Return a trace of torch.profiler."""
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Card of Tests"}]}
    return {**head, **header, "traceEvents": list(events), "traceName": "trace.json"}


def written(path: Path, document: Any) -> Path:
    """Write a trace and return where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
