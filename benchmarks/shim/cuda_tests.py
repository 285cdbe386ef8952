"""PyTorch's own tests of CUDA, unchanged, under the redirect: how many pass on a simulated card, and why others do not.

    python benchmarks/shim/cuda_tests.py --tests DIR [--target NAME ...] [--seconds N] [--output FOLDER] [FILE ...]

DIR is the folder `test` of a PyTorch source, of a version near the installed torch: its files are not in the wheel.
FILE is a path in it. It needs numpy, expecttest and psutil. A run that was stopped goes on where it was; remove the
folder of results to start anew. Tests run on the default stream, since the machinery changes it by names of `torch._C`,
and torch says that it was built for CUDA 12.4 while a file is imported, which takes that apart.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.rehearsal.generic import ended, read

WORKER = Path(__file__).with_name("cuda_worker.py")
TARGETS = ("npu", "musa")
FILES = ("test_cuda.py", "test_cuda_multigpu.py", "test_cuda_primary_ctx.py", "test_cuda_trace.py", "jit/test_cuda.py")
SETTINGS = {"TORCH_NPU_DEVICE_CAPABILITY": "8.0"}
"""What a user sets where a card does not tell a capability by itself."""

START = 900
"""Seconds until the first test begins: a busy machine takes minutes to import torch, the redirect and the file."""

GRACE = 30
"""Seconds that the launcher has to end what it started."""

CARD = 'memory = "2GiB"\n'
"""A card whose memory the tests can fill."""

LATE = "OutOfTimeError"

TORCHFERRY = (sys.executable, "-m", "torchferry")
CAUSES = (
    ("raises: the card has no such name", r"torchferry: .* (has no `|has in place of|does not have|answers nothing)"),
    ("raises: exists on the card, not rehearsed", r"not rehearsed|is not known|none for the CPU to rehearse"),
    ("raises: a private name of `torch._C`", r"torch\._C\.|module 'torch\._C'"),
    ("out of time", r"OutOfTimeError"),
)
"""Why a test does not pass, by what it says; the first that fits."""


def main() -> None:
    """Run the files asked for, and print a line for each and the causes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=Path, metavar="DIR", required=True)
    parser.add_argument("--target", action="append")
    parser.add_argument("--seconds", type=int, default=60, help="limit for one test")
    parser.add_argument("--gib", type=int, default=8, help="limit for the memory of one process")
    parser.add_argument("--output", type=Path, default=Path("cuda-results"), metavar="FOLDER")
    parser.add_argument("files", nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    if not (arguments.tests / FILES[0]).is_file():
        print(f"skipped: {arguments.tests} has no {FILES[0]}; name the folder `test` of a PyTorch source")
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    for target in arguments.target or TARGETS:
        for file in arguments.files or FILES:
            show(target, file, outcomes(arguments, target, file))


def outcomes(arguments: argparse.Namespace, target: str, file: str) -> list[dict[str, str]]:
    """Run a file on a target, in a new process after each crash, and return what its tests came to."""
    lines = arguments.output / f"{file.removesuffix('.py').replace('/', '-')}-{target}.jsonl"
    lines.touch()
    plan = {"tests": str(arguments.tests.resolve()), "file": file, "target": target, "lines": str(lines.resolve())}
    profile = (arguments.output / "card.toml").resolve()
    profile.write_text(CARD, encoding="utf-8")
    command = [
        *TORCHFERRY, "rehearse", "-t", target, "--devices", "2", "--profile", str(profile), "--",
        *TORCHFERRY, "run", "-t", target, "--",
        sys.executable, str(WORKER), json.dumps({**plan, "seconds": arguments.seconds, "gib": arguments.gib}),
    ]  # fmt: skip
    os.environ.update(SETTINGS)
    while not (rows := read(lines)) or rows[-1]["result"] != "finished":
        before = len(rows)
        with tempfile.TemporaryDirectory() as scratch:
            status, errors = watched(command, lines, Path(scratch), arguments.seconds)
        rows = read(lines)
        row = {"test": file, "result": "finished"}
        if status != 0 and rows and rows[-1]["result"] == "started":
            late = errors.startswith(LATE)
            row = {"test": rows[-1]["test"], "result": "fail"}
            row["why"] = errors if late else f"the process ended with {status}"
        elif status != 0 and len(rows) == before:
            said = [line for line in errors.splitlines() if line.strip() and not line.startswith("torchferry: ")]
            row["why"] = said[-1].strip() if said else f"the process ended with {status}"
        elif status != 0:
            continue
        with open(lines, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
    return rows


def watched(command: list[str], lines: Path, scratch: Path, seconds: int) -> tuple[int, str]:
    """Run the command, and end it when nothing has been written for longer than a start or a test may take."""
    said = scratch / "said"
    with open(said, "w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
        size, since, limit = lines.stat().st_size, time.monotonic(), START
        while not ended(process):
            if lines.stat().st_size != size:
                size, since, limit = lines.stat().st_size, time.monotonic(), seconds + 60
            if time.monotonic() - since > limit:
                end(process)
                return process.wait(), f"{LATE}: nothing was written for {limit} s"
    return process.wait(), said.read_text(encoding="utf-8", errors="replace")[-4000:]


def end(process: subprocess.Popen[bytes]) -> None:
    """End the launcher and all that it started, which is in groups of its own: a launcher that is killed leaves it."""
    psutil: Any = importlib.import_module("psutil")
    started = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    for left in psutil.wait_procs([*started, psutil.Process(process.pid)], GRACE)[1]:
        left.kill()


def show(target: str, file: str, rows: list[dict[str, str]]) -> None:
    """Print a file's figures, and its failures by cause."""
    count = Counter(row["result"] for row in rows)
    if "why" in rows[-1]:
        print(f"{target:5} {file:26} not run: {rows[-1]['why']}", flush=True)
        return
    print(f"{target:5} {file:26} {count['pass']:4} pass {count['skip']:4} skipped {count['fail']:4} fail", flush=True)
    tests: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["result"] == "fail":
            tests[cause(row["why"])].append(f"{row['test']}: {row['why']}")
    for known, _ in CAUSES:
        if known in tests:
            print(f"      {len(tests.pop(known)):4} {known}")
    for texts in tests.values():
        for text in texts:
            print(f"           {text[:200]}")


def cause(why: str) -> str:
    """Return the cause of a failure; its own words where none is known."""
    return next((name for name, pattern in CAUSES if re.search(pattern, why)), why)


if __name__ == "__main__":
    main()
