"""PyTorch's operator database on the rehearsal device, against the CPU.

    python benchmarks/rehearsal/opdb.py [--mode MODE]... [--dtype DTYPE]... [--only OP]... [--jobs N] [--output DIR]
        [--target TARGET] [--plugin simulated|installed|WHEEL]

It needs numpy and expecttest, which PyTorch's own testing code imports. Both sides end in the same CPU kernels: what
is measured is the device's plumbing (aliasing, wrapping, dispatch, autograd), never a vendor's arithmetic. A run that
was stopped goes on where it was; remove the folder to start anew. All of it takes some minutes, and is not part of the
tests.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

DENSE_MODES = ("forward", "backward", "inplace", "out", "noncontiguous")
SPARSE_MODES = ("coo", "coo-backward", "csr", "csr-backward", "csc", "bsr", "bsc")
MODES = (*DENSE_MODES, *SPARSE_MODES)
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool", "complex64", "complex128")
BY_DEFAULT = [
    *((mode, "float32") for mode in MODES),
    *((mode, "int64") for mode in ("coo", "csr")),
    *((mode, dtype) for dtype in ("float16", "bfloat16") for mode in ("forward", "backward", "out")),
    *(("forward", dtype) for dtype in ("int64", "bool", "complex64")),
    ("backward", "complex64"),
]
WORKER = Path(__file__).with_name("opdb_worker.py")
COUNTED = ("pass", "fail", "crash", "out of time", "control")
"""Outcomes of operators that have the mode, the dtype and a usable sample."""


def main() -> None:
    """Measure the suites asked for, then print and write what they came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", action="append", choices=MODES, default=[])
    parser.add_argument("--dtype", action="append", choices=DTYPES, default=[])
    parser.add_argument("--only", action="append", default=[], metavar="OP", help="such as linalg.norm")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--samples", type=int, default=40, help="at most so many inputs of an operator")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for one operator")
    parser.add_argument("--target", default="sdaa")
    parser.add_argument("--plugin", default="simulated", help="`installed` or a wheel, for the vendor's own plugin")
    parser.add_argument("--output", type=Path, default=Path("opdb-results"), metavar="DIR")
    arguments = parser.parse_args()
    suites = BY_DEFAULT
    if arguments.mode or arguments.dtype:
        suites = [(m, d) for d in arguments.dtype or ("float32",) for m in arguments.mode or ("forward",)]
    arguments.output.mkdir(parents=True, exist_ok=True)
    measured = {}
    for mode, dtype in suites:
        path = arguments.output / f"{mode}-{dtype}.jsonl"
        path.touch()
        measure(path, mode, dtype, arguments)
        measured[f"{mode} {dtype}"] = outcomes(path)
        print_row(f"{mode} {dtype}", measured[f"{mode} {dtype}"])
    write(measured, arguments)
    for suite, rows in measured.items():
        print_exceptions(suite, rows)


def measure(path: Path, mode: str, dtype: str, arguments: argparse.Namespace) -> None:
    """Run the worker for each shard, anew after each crash."""

    def shard(number: int) -> None:
        plan = {
            "file": str(path),
            "mode": mode,
            "dtype": dtype,
            "shard": number,
            "shards": arguments.jobs,
            "only": arguments.only,
            "samples": arguments.samples,
            "seconds": arguments.seconds,
            "target": arguments.target,
            "plugin": arguments.plugin,
        }
        while True:
            done = subprocess.run(
                [sys.executable, str(WORKER), json.dumps(plan)], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return
            last = [row for row in read(path) if row["shard"] == number][-1:]
            if not last or last[0]["result"] != "started":
                raise SystemExit(f"the worker ended with {done.returncode}: {done.stderr[-2000:]}")
            row = {"op": last[0]["op"], "shard": number, "result": "crash", "first": f"exit status {done.returncode}"}
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(shard, range(arguments.jobs)))


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a suite's file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def outcomes(path: Path) -> list[dict[str, Any]]:
    """Return the last line of each operator."""
    return list({row["op"]: row for row in read(path)}.values())


def print_row(suite: str, rows: list[dict[str, Any]]) -> None:
    """Print a suite's figures."""
    count = Counter(str(row["result"]) for row in rows)
    tested = sum(count[name] for name in COUNTED)
    samples = sum(row.get("samples", 0) for row in rows)
    rounded = sum(1 for row in rows if row.get("rounded"))
    rest = ", ".join(f"{count[name]} {name}" for name in COUNTED[1:] if count[name])
    print(
        f"{suite:24}{count['pass']:5} of {tested:4} operators, {samples:6} samples, {rounded:3} rounded; {rest}",
        flush=True,
    )


def print_exceptions(suite: str, rows: list[dict[str, Any]]) -> None:
    """Print what did not pass."""
    for row in sorted(rows, key=lambda row: str(row["op"])):
        if row["result"] in COUNTED[1:]:
            share = f"{row.get('agree', 0)}/{row.get('samples', 0)}"
            print(f"{suite:24}{row['op']:40} {row['result']:12}{share:>7}  {row.get('first', '')}")


def write(measured: dict[str, list[dict[str, Any]]], arguments: argparse.Namespace) -> None:
    """Write everything as JSON."""
    from importlib.metadata import version

    document = {"torch": version("torch"), "most_samples": arguments.samples, "suites": measured}
    (arguments.output / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
