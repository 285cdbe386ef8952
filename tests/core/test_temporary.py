"""Folders for the time of a command: gone afterwards, those of killed commands too, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torchferry.core.temporary import temporary_folder

PREFIX = "torchferry-deploy-"
HOLDS = f"""
import time
from torchferry.core.temporary import temporary_folder
with temporary_folder({PREFIX!r}) as folder:
    (folder / "secret").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_command_left_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = tmp_path / "other"
    other.mkdir(0o700)
    (other / ".torchferry-lock").touch()
    os.symlink(other, tmp_path / f"{PREFIX}link")
    without_lock, open_to_all = tmp_path / f"{PREFIX}mine", tmp_path / f"{PREFIX}theirs"
    without_lock.mkdir(0o700)
    (without_lock / "somebody's").touch()
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    (open_to_all / ".torchferry-lock").touch()
    (tmp_path / f"{PREFIX}file").touch()
    stays = sorted(tmp_path.iterdir())
    (tmp_path / f"{PREFIX}unfinished").mkdir(0o700)  # of one that was killed before its lock
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", HOLDS], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        folders = [Path(process.stdout.readline().strip()) for process in processes if process.stdout]
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        assert [(folder / "secret").exists() for folder in folders] == [True, True]
        with temporary_folder(PREFIX) as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
            assert [each.exists() for each in folders] == [False, True], "the one in use stays"
        assert sorted(tmp_path.iterdir()) == sorted([*stays, folders[1]])
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def killed_at(deadline: int) -> int:
    """Use a folder in a child that is killed at a step of its removal; return how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    steps = 0

    def counted(function: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == deadline:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return wrapper

    try:
        with temporary_folder(PREFIX) as folder:
            (folder / "a" / "b").mkdir(parents=True)
            for name in ("secret", "a/secret", "a/b/secret", ".z"):
                (folder / name).touch()
            for name in ("unlink", "rmdir", "rename"):
                setattr(os, name, counted(getattr(os, name)))
    finally:
        os._exit(0)


def test_one_that_is_killed_while_it_removes_leaves_nothing_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for deadline in range(1, 40):
        ended = killed_at(deadline)
        with temporary_folder(PREFIX) as folder:
            assert list(tmp_path.iterdir()) == [folder], f"killed at step {deadline}"
        if ended == 0:
            break
    assert deadline > 8
    assert ended == 0
