"""What nobody caught: one exit code, a short report that can be sent, and the whole traceback for the user alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

RAISING = """
import errno, sys, threading
import torchferry.cli
from torchferry.cli import {module}
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
def deep(): deep()
def raising(*given, **named):
    {statement}
{module}.command.callback = raising
sys.argv = ["torchferry", *{arguments!r}]
torchferry.cli.main()
"""
SECRET = "hunter2hunter2"
RULE = ("rule", SECRET)
RUN = ("run", "-t", "cuda", "--", "true", SECRET)


def end_by(
    statement: str, folder: Path, arguments: tuple[str, ...] = RULE, **env: str
) -> subprocess.CompletedProcess[str]:
    code = RAISING.format(module=arguments[0], statement=statement, arguments=arguments)
    settings = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(folder), "LC_ALL": "C.UTF-8", **env}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=settings)


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("raise SystemExit(7)", 7, None),
        ("raise TorchferryError(say('wrong'))", 2, "torchferry: wrong"),
        ("raise KeyboardInterrupt", 130, "interrupted"),
        ("raise RuntimeError(named)", 2, "internal error: RuntimeError"),
        ("deep()", 2, "internal error: RecursionError"),
        ("'\\ud800'.encode()", 2, "internal error: UnicodeEncodeError"),
        ("raise BrokenPipeError(errno.EPIPE, 'x')", 2, "internal error: BrokenPipeError (EPIPE)"),
        ("raise BaseException", 2, "internal error: BaseException"),
        ("raise MemoryError", 2, "out of memory"),
        ("raise OSError(errno.ENOSPC, 'No space left on device', 'x')", 2, "No space left on device: x"),
        ("raise OSError(errno.EMFILE, 'Too many open files')", 2, "refused: Too many open files"),
        ("raise OSError(errno.EIO, 'Input/output error', 'y')", 2, "Input/output error: y"),
        ("t = threading.Thread(target=deep); t.start(); t.join()", 2, "internal error: RecursionError"),
    ],
)
def test_each_end_has_its_code_and_its_words(tmp_path: Path, statement: str, code: int, said: str | None) -> None:
    done = end_by(statement, tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert SECRET not in done.stderr
    assert said is None or said in done.stderr
    written = list(tmp_path.glob("torchferry/errors/*.txt"))
    assert len(written) == int(said is not None and "internal error" in said)
    for file in written:
        assert str(file) in done.stderr
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o077 == 0
        assert "Traceback" in file.read_text()
        assert "please report it" in done.stderr


def test_a_command_that_passes_on_an_exit_code_has_one_of_its_own(tmp_path: Path) -> None:
    done = end_by("raise RuntimeError", tmp_path, RUN)
    assert done.returncode == 125
    assert "torchferry run -t -- ..." in done.stderr
    assert SECRET not in done.stderr


def test_the_traceback_is_shown_where_it_is_asked_for_or_cannot_be_kept(tmp_path: Path) -> None:
    shown = end_by("raise RuntimeError('a\\x1b[31m')", tmp_path, TORCHFERRY_TRACEBACK="1")
    assert shown.returncode == 2
    assert "Traceback" in shown.stderr
    assert "\\x1b[31m" in shown.stderr
    assert "\x1b" not in shown.stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    hint = end_by("raise RuntimeError", tmp_path / "file")
    assert hint.returncode == 2
    assert "TORCHFERRY_TRACEBACK=1 shows the whole traceback" in hint.stderr


def test_no_more_tracebacks_are_kept_than_anybody_reads(tmp_path: Path) -> None:
    folder = tmp_path / "torchferry" / "errors"
    folder.mkdir(parents=True, mode=0o700)
    for number in range(40):
        (folder / f"2000010{number:02}.txt").write_text("old")
    end_by("raise RuntimeError", tmp_path)
    assert len(list(folder.iterdir())) == 20
    assert sum("Traceback" in file.read_text() for file in folder.iterdir()) == 1


def test_an_installation_that_is_not_whole_is_no_finding(tmp_path: Path) -> None:
    code = "import sys; sys.modules['click'] = None; from torchferry.__main__ import main; main()"
    settings = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 2
    assert "internal error: ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize(
    ("redirect", "code", "said"),
    [
        ("> /dev/full", 2, "cannot write the output: No space left on device"),
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("| true", 0, ""),
        ("| head -c 10", 0, ""),
    ],
)
def test_an_output_that_cannot_be_written(tmp_path: Path, redirect: str, code: int, said: str) -> None:
    command = f"{sys.executable} -m torchferry rule {redirect}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr.strip() == (f"torchferry: {said}" if said else "")


def test_a_reader_that_goes_is_no_success(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "torchferry", "rule"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 2
