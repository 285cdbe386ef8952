"""What `torchferry explain` needs for the logs of many ranks: processor seconds and memory.

    python -m benchmarks.diagnosis.logs [--ranks 64] [--megabytes 100]

The logs are made in a temporary folder, in the form that torchrun gives them. One line in twenty is like no other, as
hashes and prompts are; rank 17 fails in the middle, and the others then wait for it in vain.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

FORMS = (
    "[rank{rank}]: 2026-11-26 {time},{part:03d} - trainer - INFO - iter {number}/9000 loss {loss} grad_norm 1.73",
    "[INFO] RUNTIME(1234,python):2026-11-26-{time}.{part:03d}.1 [stream.cc:1183] GetError: stream_id={number} done",
    "node{rank}:1234:5678 [{rank}] NCCL INFO Channel 00/02 : 0 1 2 3 via P2P/IPC",
    "Step {number}: loss={loss}, errors: 0, failed=0, exit code 0, tokens per second {number}.5",
    "[W1126 10:11:21.9 compiler_depend.ts:57] Warning: an operator falls back to run on the CPU (function f)",
)
CAUSE = "EJ0003: [PID: 17] 2026-11-26-{time}.1 Failed to bind the IP port. Reason: The port has been bound already.\n"
EFFECT = "EI0006: [PID: {rank}] 2026-11-26-{time}.1 Getting socket times out. Reason: Remote Rank sent no data.\n"


def lines(rank: int, size: int) -> Iterator[str]:
    """Yield the lines of a rank's log, of so many bytes together."""
    number = written = 0
    is_told = False
    while written < size:
        number += 1
        clock = f"{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}"
        form = FORMS[number % len(FORMS)]
        line = form.format(rank=rank, time=clock, part=number % 1000, number=number, loss=f"{2 + 1 / number:.5f}")
        if number % 20 == 0:
            letters = hashlib.sha256(line.encode()).hexdigest().translate(str.maketrans("0123456789", "ghijklmnop"))
            line = f"prompt {letters} {letters[:30]}"
        if not is_told and written > size / 2:
            is_told = True
            line = (CAUSE if rank == 17 else EFFECT).format(rank=rank, time=clock) + line
        written += len(line) + 1
        yield line + "\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(arguments.ranks):
            path = Path(folder, "attempt_0", str(rank), "stderr.log")
            path.parent.mkdir(parents=True)
            path.write_text("".join(lines(rank, arguments.megabytes * 1_000_000 // arguments.ranks)), encoding="utf-8")
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "torchferry", "explain", folder], capture_output=True, text=True, check=False
        )
        wall = time.perf_counter() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout.splitlines()[0])
    print(
        f"{arguments.megabytes} MB of {arguments.ranks} ranks: {used.ru_utime + used.ru_stime:.2f} s of processor time,"
        f" {wall:.2f} s, {used.ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main()
