"""PyTorch's device-generic tests on the rehearsal device, against the CPU.

    python benchmarks/rehearsal/generic.py                          # what the wheel has: machinery and databases
    python benchmarks/rehearsal/generic.py --tests DIR [FILE...]    # PyTorch's own test files
    python benchmarks/rehearsal/generic.py --tests DIR --host [FILE...]    # their tests that are for the CPU alone
    python benchmarks/rehearsal/generic.py --tests DIR --distributed [FILE...]    # those of DDP and collectives

DIR is the folder `test` of a PyTorch source, of a version near the installed torch: its files are not in the wheel.
FILE is a path in it, such as test_view_ops.py or nn/test_pooling.py. It needs numpy and expecttest.

Each file runs in a process for the CPU, without the rehearsal, and in one for the device, and what they say is compared
test by test. A test that fails on the CPU too says nothing about the device (an older test of a newer torch, for one),
and is counted apart. With --host, the tests that are not made for a device run with and without the rehearsal, which
must leave the CPU as it was. With --distributed, the tests of CUDA and NCCL run under the names of the device and of
its collective library (`generic_distributed.py` has the table), and on the CPU as they are. A run that was stopped goes
on where it was; remove the folder of results to start anew.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

WORKER = Path(__file__).with_name("generic_worker.py")
DISTRIBUTED_WORKER = Path(__file__).with_name("generic_distributed.py")
TARGET = "sdaa"
FILES = (
    "test_torch.py",
    "test_autograd.py",
    "test_optim.py",
    "test_serialization.py",
    "test_indexing.py",
    "test_dataloader.py",
    "test_view_ops.py",
    "test_shape_ops.py",
    "test_type_promotion.py",
    "test_tensor_creation_ops.py",
    "test_sort_and_select.py",
    "test_scatter_gather_ops.py",
    "test_segment_reductions.py",
    "test_masked.py",
    "test_maskedtensor.py",
    "test_dlpack.py",
    "test_numpy_interop.py",
    "test_complex.py",
    "test_nn.py",
    "test_modules.py",
    "nn/test_convolution.py",
    "nn/test_dropout.py",
    "nn/test_embedding.py",
    "nn/test_multihead_attention.py",
    "nn/test_parametrization.py",
    "nn/test_pooling.py",
    "test_native_mha.py",
    "test_transformers.py",
    "test_expanded_weights.py",
    "test_foreach.py",
    "test_spectral_ops.py",
    "test_linalg.py",
    "test_reductions.py",
    "test_binary_ufuncs.py",
    "test_unary_ufuncs.py",
    "functorch/test_eager_transforms.py",
    "functorch/test_vmap.py",
    "test_fake_tensor.py",
    "test_python_dispatch.py",
    "test_custom_ops.py",
)
HOST_FILES = (
    "test_torch.py",
    "test_autograd.py",
    "test_serialization.py",
    "test_dataloader.py",
    "test_multiprocessing.py",
    "test_indexing.py",
    "test_optim.py",
    "test_nn.py",
)
DISTRIBUTED_FILES = (
    "distributed/test_c10d_common.py",
    "distributed/test_c10d_gloo.py",
    "distributed/test_c10d_spawn_gloo.py",
    "distributed/test_c10d_nccl.py",
    "distributed/test_c10d_spawn_nccl.py",
    "distributed/test_data_parallel.py",
    "distributed/test_distributed_spawn.py",
    "distributed/test_functional_api.py",
)

Outcomes = dict[str, dict[str, str]]


def main() -> None:
    """Run the tests asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=Path, metavar="DIR", help="the folder with PyTorch's test files")
    parser.add_argument("--host", action="store_true", help="the tests that are not made for a device")
    parser.add_argument("--distributed", action="store_true", help="the tests of DDP and collectives")
    parser.add_argument("--again", action="store_true", help="run once more what failed on the device")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=int, default=60, help="limit for one test")
    parser.add_argument("--gib", type=int, default=8, help="limit for the memory of one process")
    parser.add_argument("--output", type=Path, metavar="PATH", help="a folder; without --tests, a JSON file")
    arguments, rest = parser.parse_known_args()
    if arguments.tests is None:
        from benchmarks.rehearsal import generic_checks

        generic_checks.main(arguments.output, rest)
        return
    if not (arguments.tests / "test_torch.py").is_file():
        print(f"skipped: {arguments.tests} has no test_torch.py; name the folder `test` of a PyTorch source")
        return
    usual = DISTRIBUTED_FILES if arguments.distributed else HOST_FILES if arguments.host else FILES
    measure(arguments, rest or [file for file in usual if (arguments.tests / file).is_file()])


def measure(arguments: argparse.Namespace, files: list[str]) -> None:
    """Run the files on both devices, print a line for each, and write what failed on the device only."""
    folder = arguments.output or Path("generic-results")
    folder.mkdir(parents=True, exist_ok=True)

    def both(file: str) -> dict[str, Any]:
        found = [outcomes(run(arguments, folder, file, target)) for target in ("", TARGET)]
        return compared(file, *found)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = []
        for row in pool.map(both, files):
            rows.append(row)
            print_row(row)
    (folder / "results.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def run(arguments: argparse.Namespace, folder: Path, file: str, target: str) -> Path:
    """Run a file on a device, in a new process after each crash and each test that cannot be interrupted."""
    kind = "host-" if arguments.host else ""
    lines = folder / f"{file.removesuffix('.py').replace('/', '-')}-{kind}{target or 'cpu'}.jsonl"
    lines.touch()
    if arguments.again and target:
        kept = [row for row in read(lines) if row["result"] in ("pass", "skip")]
        lines.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    if any(row["result"] == "finished" for row in read(lines)):
        return lines
    plan = {
        "tests": str(arguments.tests.resolve()),
        "file": file,
        "target": target,
        "host": arguments.host,
        "lines": str(lines.resolve()),
        "seconds": arguments.seconds,
        "gib": arguments.gib,
    }
    while True:
        before = lines.stat().st_size
        with tempfile.TemporaryDirectory() as scratch:
            status, errors = watched(command(plan, arguments), lines, scratch, arguments.seconds)
        rows = read(lines)
        if status == 0:
            row = {"test": file, "result": "finished"}
        elif rows and rows[-1]["result"] == "started":
            row = {"test": rows[-1]["test"], "result": "fail", "why": f"the process ended with {status}"}
        elif lines.stat().st_size == before:
            row = {"test": file, "result": "finished", "why": errors.strip().rpartition("\n")[2]}
        else:
            continue
        with open(lines, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        if row["result"] == "finished":
            return lines


def command(plan: dict[str, Any], arguments: argparse.Namespace) -> list[str]:
    """Return the worker's command; ranks need the rehearsal in their environment."""
    worker = DISTRIBUTED_WORKER if arguments.distributed else WORKER
    started = [sys.executable, str(worker), json.dumps(plan)]
    if not (arguments.distributed and plan["target"]):
        return started
    return [sys.executable, "-m", "torchferry", "rehearse", "-t", plan["target"], "--devices", "4", "--", *started]


def watched(arguments: list[str], lines: Path, scratch: str, seconds: int) -> tuple[int, str]:
    """Run the worker, and end it when nothing has been written for longer than a test may take."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            arguments,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        size, since = -1, time.monotonic()
        while not ended(process):
            if lines.stat().st_size != size:
                size, since = lines.stat().st_size, time.monotonic()
            if time.monotonic() - since > seconds + 60:
                os.killpg(process.pid, signal.SIGKILL)
        errors.seek(0)
        return process.wait(), errors.read()[-4000:]


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for a second, and say whether the process has ended."""
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        return False
    return True


def read(path: Path) -> list[dict[str, str]]:
    """Return the lines of a file's run."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def outcomes(path: Path) -> Outcomes:
    """Return what each test came to, under the name that it has on the CPU."""
    found = {}
    for row in read(path):
        if row["result"] != "started":
            named = row["test"].replace("PRIVATEUSE1.", "CPU.").replace(f"{TARGET.upper()}.", "CPU.")
            found[named.replace(f"_{TARGET}", "_cpu")] = row
    return found


def compared(file: str, cpu: Outcomes, device: Outcomes) -> dict[str, Any]:
    """Return a file's figures and what failed on the device only."""
    ended = device.pop(file, {}).get("why", "") or cpu.pop(file, {}).get("why", "")
    count: Counter[str] = Counter()
    own: dict[str, str] = {}
    both: dict[str, str] = {}
    for test, row in device.items():
        theirs = cpu.get(test, {"result": "absent"})["result"]
        if row["result"] == "fail":
            (both if theirs == "fail" else own)[test] = row["why"]
        count[row["result"]] += 1
    return {
        "file": file,
        "not run": ended,
        "tests": len(device),
        "pass": count["pass"],
        "skip": count["skip"],
        "both": both,
        "own": own,
    }


def print_row(row: dict[str, Any]) -> None:
    """Print a file's figures."""
    if row["not run"]:
        print(f"{row['file']:36} not run: {row['not run']}", flush=True)
        return
    print(
        f"{row['file']:36}{row['tests']:6} tests, {row['pass']:6} pass, {row['skip']:5} skipped,"
        f" {len(row['both']):4} fail on the CPU too, {len(row['own']):4} here only",
        flush=True,
    )


if __name__ == "__main__":
    main()
