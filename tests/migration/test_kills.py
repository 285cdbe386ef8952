"""Commands that are killed at random, and two at once on one tree: nothing is lost, and the next command restores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchferry.core.abandoned import LOCK, remove_abandoned

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


@pytest.mark.parametrize("names", [[], [f"{LOCK}.new"]])
def test_a_folder_whose_process_was_killed_before_its_lock_is_removed(tmp_path: Path, names: list[str]) -> None:
    mine = tmp_path / "mine"
    for folder in (mine, tmp_path / "open", tmp_path / "filled"):
        folder.mkdir(0o700)
        for name in names:
            (folder / name).touch()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "filled" / "data").touch()
    kept = sorted(path for path in tmp_path.rglob("*") if mine not in (path, path.parent))
    for folder in (mine, tmp_path / "open", tmp_path / "filled"):
        remove_abandoned(folder)
    assert sorted(tmp_path.rglob("*")) == kept
