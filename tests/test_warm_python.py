"""The Pythons that have torch or torchferry imported already run programs as Python does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import HANGS
from tests.warm_python import ferry, instead, python

pytestmark = pytest.mark.rehearsal
pytest.importorskip("torch")

SAME = {
    "script": ["program.py", "a", "-b"],
    "error in a script": ["program.py", "wrong"],
    "module": ["-m", "program", "a"],
    "code": ["-c", "import sys; print(sys.argv, __name__, sys.path[0])", "a"],
    "status": ["-c", "raise SystemExit(7)"],
    "message": ["-c", "raise SystemExit('no')"],
    "killed": ["-c", "import os; os.kill(os.getpid(), 9)"],
    "error": ["-c", "1 / 0"],
    "hook": ["-c", "import sys; sys.excepthook = lambda *error: print(error[1]); 1 / 0"],
    "end": ["-c", "import atexit; atexit.register(print, 'end'); print('first')"],
    "environment": ["-c", "import os; print(os.environ['WARM'], os.getcwd())"],
    "torch": ["-c", "import sys; print('torch' in sys.modules); import torch.nn; print(torch.nn, torch.__spec__.name)"],
}
PROGRAM = """
import sys
print(sys.argv[1:], __name__, __file__, __spec__ is None, sys.path[0])
if "wrong" in sys.argv:
    1 / 0
"""


@pytest.mark.parametrize("name", SAME)
def test_they_do_as_python_does(name: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    plain, *warm = (
        subprocess.run(
            [interpreter, *SAME[name]],
            cwd=tmp_path, env={**os.environ, "WARM": "1"}, capture_output=True, text=True, check=False,
        )
        for interpreter in (sys.executable, python(), *([ferry()] if name != "torch" else []))
    )  # fmt: skip
    for done in warm:
        assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_a_program_may_come_by_standard_input() -> None:
    given = "import sys; print(sys.argv, repr(sys.path[0]))"
    plain, *warm = (
        subprocess.run([each, "-", "a"], input=given, capture_output=True, text=True, check=True).stdout
        for each in (sys.executable, python(), ferry())
    )
    assert warm == [plain, plain]


def test_unbuffered_streams_keep_their_order() -> None:
    code = "import sys; print(1); print(2, file=sys.stderr); print(3)"
    done = subprocess.run(
        [ferry(), "-c", code],
        env={**os.environ, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
    )  # fmt: skip
    assert done.stdout == b"1\n2\n3\n"


def test_torchferry_is_imported_and_torch_is_not() -> None:
    code = "import sys; print([name in sys.modules for name in ('torchferry.cli.scan', 'torch')], sys.executable)"
    done = subprocess.run([ferry(), "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"[True, False] {sys.executable}\n"


FERRIED = {
    "scan": ("scan", "-t", "npu"),
    "diff": ("migrate", "-t", "npu", "--diff"),
    "Chinese": ("scan", "-t", "npu", "--lang", "zh", "-f", "json"),
    "wrong": ("scan", "-t", "nothing"),
}


@pytest.mark.parametrize("name", FERRIED)
def test_torchferry_says_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / "\u8bad\u7ec3.py").write_text(
        "import torch\nprint('\u8bad', torch.zeros(2).cuda())\n", encoding="utf-8"
    )
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    plain, warm = (
        subprocess.run(
            [interpreter, "-m", "torchferry", *FERRIED[name], "."],
            cwd=tmp_path, env=environment, capture_output=True, check=False,
        )
        for interpreter in (sys.executable, ferry())
    )  # fmt: skip
    assert (warm.returncode, warm.stdout, warm.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert plain.stdout or plain.stderr


def test_signals_reach_the_program_and_it_ends_with_its_executable(tmp_path: Path) -> None:
    code = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: os.write(1, b'told\\n'))\n"
        "print(os.getpid(), flush=True)\nwhile True: time.sleep(0.05)\n"
    )
    process = subprocess.Popen([python(), "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    number = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "told\n"
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + HANGS
    while Path(f"/proc/{number}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_put_in_place_of_python() -> None:
    warm = python()
    assert instead(["python", "train.py"]) == [warm, "train.py"]
    own = [sys.executable, "-m", "torchferry", "nan", "--", "python", "a.py"]
    assert instead(own) == [ferry(), *own[1:-2], warm, "a.py"]
    assert instead(["python", "-m", "torchferry.run", "a.py"])[0] == "python"
    assert instead(["torchrun", "--standalone", "a.py"]) == [
        warm,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "a.py",
    ]
