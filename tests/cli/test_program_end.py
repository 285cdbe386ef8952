"""What a command says at its end of the program that it ran and that failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.warm_python import ferry
from torchferry.core.torch_start import SITE, noting, uncaught_logs

PORT = "EJ0003: Failed to bind the IP port. Reason: The IP address and port have been bound already."
CARD = "NPU function error: call aclnnAdd failed, error code is 507015\\n[ERROR] The aicore execution is abnormal."
LOOKUP = "value = {}['no such']\n"
CASES = [
    (f"raise RuntimeError({PORT!r})", ("EJ0003", "cause: another run on this host", "-> ss -ltnp", "source: ")),
    (f'raise RuntimeError("{CARD}")', ("507015", "cause: ", "-> ", "source: ")),
    (LOOKUP, ("failed first: KeyError", "program.py:1: KeyError: 'no such'", "no table knows")),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ("SIGSEGV: ", "-> torchferry doctor")),
    ("import os, signal; os.kill(os.getpid(), signal.SIGFPE)", ("ended by signal 8 (SIGFPE)",)),
]
QUIET = [
    "import sys; sys.exit(3)",
    "import os; os._exit(7)",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "raise KeyboardInterrupt",
    "pass",
]
"""Ends that are no failure that anybody could explain: chosen by the program, or asked for by a person."""


def run(text: str, folder: Path, *before: str, **more: object) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(text, encoding="utf-8")
    words = before or ("run", "-t", "cuda", "--")
    return torchferry(*words, sys.executable, "program.py", cwd=folder, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_the_end_of_a_program_is_explained(text: str, wanted: tuple[str, ...], tmp_path: Path) -> None:
    done = run(text, tmp_path)
    assert [part for part in wanted if part not in done.stderr] == [], done.stderr
    assert "not read: what the command printed" in done.stderr


@pytest.mark.parametrize("text", QUIET)
def test_nothing_is_said_of_an_end_that_is_no_failure(text: str, tmp_path: Path) -> None:
    done = run(text, tmp_path)
    assert "failed first" not in done.stderr
    assert "not read" not in done.stderr


def test_it_is_said_once_by_commands_within_each_other(tmp_path: Path) -> None:
    done = run(CASES[0][0], tmp_path, "run", "-t", "cuda", "--", ferry(), "-m", "torchferry", "run", "-t", "cuda", "--")
    assert done.stderr.count("failed first") == 1, done.stderr


def test_chinese(tmp_path: Path) -> None:
    done = run(CASES[0][0], tmp_path, env={"TORCHFERRY_LANG": "zh"})
    assert "最先失败" in done.stderr
    assert "cause" not in done.stderr


@pytest.mark.parametrize(("printed", "wanted"), [(PORT, "failed first: EJ0003: "), ("no data in 'set.txt'", "")])
def test_what_a_program_caught_and_printed_into_a_file_is_explained(printed: str, wanted: str, tmp_path: Path) -> None:
    """It ends with a code of its own, and no exception is left; what nobody knows stays the program's own."""
    (tmp_path / "program.py").write_text(f"print({printed!r})\nraise SystemExit(1)\n", encoding="utf-8")
    log = tmp_path / "run.log"
    with log.open("w", encoding="utf-8") as stream:
        subprocess.run(
            [ferry(), "-m", "torchferry", "run", "-t", "cuda", "--", sys.executable, "program.py"],
            cwd=tmp_path, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "TORCHFERRY_LANG": "en"},
        )  # fmt: skip
    said = log.read_text(encoding="utf-8")
    assert ("failed first" in said) is bool(wanted), said
    assert wanted in said


@pytest.mark.parametrize("appends", [True, False])
def test_a_file_that_the_program_prints_into_is_read_from_where_it_ended(appends: bool, tmp_path: Path) -> None:
    """What C++ prints before it aborts is no exception of Python; an earlier run's error is not this one's."""
    (tmp_path / "program.py").write_text(
        f"import os, sys\nsys.stderr.write({PORT!r} + '\\n')\nsys.stderr.flush()\nos.abort()\n", encoding="utf-8"
    )
    log = tmp_path / "run.log"
    log.write_text("RuntimeError: EI0006: an earlier run\n", encoding="utf-8")
    with log.open("a" if appends else "r+", encoding="utf-8") as stream:
        stream.seek(0, os.SEEK_END)
        subprocess.run(
            [ferry(), "-m", "torchferry", "run", "-t", "cuda", "--", sys.executable, "program.py"],
            cwd=tmp_path, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "TORCHFERRY_LANG": "en"},
        )  # fmt: skip
    said = log.read_text(encoding="utf-8").partition("failed first")[2]
    assert said.startswith(": EJ0003: "), log.read_text(encoding="utf-8")
    assert "not read" not in said


def test_the_program_keeps_its_streams(tmp_path: Path) -> None:
    """What the program sees of its streams is what the command was given."""
    look = "import os, sys; print(sys.stdout.isatty(), os.fstat(1).st_ino, os.fstat(2).st_ino, sys.excepthook)"
    (tmp_path / "program.py").write_text(look, encoding="utf-8")
    command = [sys.executable, "program.py"]
    told = []
    for words in (command, [ferry(), "-m", "torchferry", "run", "-t", "cuda", "--", *command]):
        with (tmp_path / "out").open("w+") as stream, (tmp_path / "error").open("w") as other:
            subprocess.run(words, cwd=tmp_path, stdout=stream, stderr=other, stdin=subprocess.DEVNULL, check=True)
            stream.seek(0)
            told.append(stream.read().partition(" at 0x")[0])
    assert told[0] == told[1]


ODD = """\
class Odd(Exception):
    def __str__(self):
        raise ValueError("no text")
raise Odd
"""
LONG = "raise RuntimeError('x' * 3_000_000 + '\\\\udc80')"


@pytest.mark.parametrize("text", [ODD, LONG, "raise RuntimeError('\\x1b[31m\\0\\ud800')"])
def test_exceptions_that_are_hard_to_write_change_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    ends = []
    for more in ({}, {**noting(tmp_path), "PYTHONPATH": str(SITE), "RANK": "3"}):
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, check=False,
            env={**os.environ, **more}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        ends.append((done.returncode, done.stdout, done.stderr))
    assert ends[0] == ends[1]
    logs = uncaught_logs(tmp_path)
    assert len(logs) == 1
    assert " [rank3]: Traceback (most recent call last):" in logs[0].read_text(encoding="utf-8")
    assert logs[0].stat().st_size < 1 << 18
