"""Commands that are killed at random, and two at once on one tree: nothing is lost, and the next command restores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROUNDS = 2
CHECKOUT = Path(__file__).resolve().parents[2]


def test_killed_commands_lose_nothing(tmp_path: Path) -> None:
    names = ["undo", "overlay", "port"]
    environment = {**os.environ, "TORCHFERRY_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks.kills", "--count", str(ROUNDS), "--seed", "5", *names]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in said] == names
    assert all(line.endswith("nothing lost") and "killed 0 " not in line for line in said), said
