"""What commands show on a terminal while they work, that nothing is left of it, and that nobody else gets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_terminal import in_terminal
from tests.installed.made import install
from tests.progress_line import drawn_at_once, lines_drawn, screen
from torchferry.kernels import ported_tree
from torchferry.programs.verdicts import judging

pytestmark = pytest.mark.pure

PROGRAM = """import argparse
import foolib
import torch
from model import Model

if __name__ == "__main__":
    print(Model().cuda()(torch.zeros(1, device="cuda")))
"""
KERNEL = "#include <cuda_runtime.h>\n__global__ void scale(float* x) { x[threadIdx.x] *= 2; }\n"
ACCEPT = """schema = 1
[runs.target]
command = ["python", "train.py"]
[[gates.outputs]]
folder = "out"
reference = "reference"
kind = "text"
pattern = "*.txt"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    drawn_at_once(monkeypatch)
    root = tmp_path / "project"
    (root / "csrc").mkdir(parents=True)
    (root / "train.py").write_text(PROGRAM)
    (root / "model.py").write_text("import torch\n\n\nclass Model(torch.nn.Linear):\n    pass\n")
    (root / "csrc" / "scale.cu").write_text(KERNEL)
    (root / "LICENSE").write_text("MIT License\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "."], check=True)
    install(tmp_path / "environment", "foolib", {"foolib/__init__.py": "import torch\n\n\ndef f(x='cuda'):\n    ...\n"})
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 9, "args": {}}
    events = [{**event, "cat": "cpu_op", "name": "aten::mm"}, {**event, "cat": "kernel", "name": "gemm"}]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    (tmp_path / "loss.log").write_text("".join(f"step {n} loss {1 / (n + 1)}\n" for n in range(20)))
    (tmp_path / "installer.run").write_text("#!/bin/sh\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"w" * 1000)
    (root / "reference").mkdir()
    (root / "reference" / "a.txt").write_text("a")
    (root / "torchferry.accept.toml").write_text(ACCEPT)
    return root


MIGRATE = ("migrate", ".", "-t", "npu", "--allow-dirty", "--unsafe-fixes")
HANDOVER = ("handover", "prepare", ".", "-t", "npu", "--for", "generic", "--program", "train.py", "-o", "../hand-over")
BUNDLE = ("deploy", "bundle", "-t", "ptex", "-o", "../bundle")
SHOWN: dict[tuple[str, ...], list[str]] = {
    ("scan", ".", "-t", "npu"): [
        "listing files",
        "looking for an earlier result",
        "examining files # of #",
        "examining CUDA C++ # of #",
        "finding programs",
        "judging programs # of #",
    ],
    ("scan", ".", "-t", "npu", "--python", "../environment"): ["reading packages # of #"],
    ("advise", ".", "-t", "npu", "--trace", "../trace.json"): [
        "examining files # of #",
        "reading trace.json",
        "evaluating trace.json",
        "looking for advice",
    ],
    MIGRATE: ["examining files # of #", "writing files # of #"],
    (*MIGRATE[:4], "--out", "../copy"): ["examining files # of #", "copying files #"],
    (*MIGRATE[:4], "--overlay", "overlay", "--python", "../environment"): [
        "following imports",
        "reading packages # of #",
        "migrating modules of foolib # of #",
    ],
    ("undo", "."): ["comparing files # of #", "restoring files # of #"],
    ("port", ".", "-t", "musa", "--out", "../ported"): ["porting files # of #", "writing files # of #"],
    ("profile", "show", "../trace.json"): ["reading trace.json", "evaluating trace.json"],
    ("profile", "compare", "../trace.json", "../trace.json"): ["comparing the runs"],
    ("compare", "curves", "../loss.log", "../loss.log"): ["reading loss.log"],
    ("explain", "../loss.log"): ["reading logs"],
    ("accept", "metric", "../loss.log", "-m", "loss", "--at-most", "1"): ["reading loss.log"],
    ("accept", "-t", "npu", "--only", "runs", "--only", "outputs"): [
        "judging runs",
        "running python train.py",
        "judging outputs",
        "comparing outputs # of #",
    ],
    HANDOVER: ["reading files #", "finding programs", "preparing the hand-over", "writing files # of #"],
    ("handover", "check", "../hand-over"): ["reading files # of #", "checking rules # of #"],
    ("doctor", "-t", "npu", "--python", "/bin/true", "--select", "system"): [
        "asking Python and the driver",
        "examining the machine # of #",
    ],
    ("doctor", "-t", "npu", "--python", "/bin/true", "--select", "probe", "--probe"): ["using the device"],
    ("doctor", "symbol", "_ZN3c105ErrorC1Ev"): ["looking for symbols"],
    (*BUNDLE, "--file", "installer=../installer.run", "--file", "model=../model"): [
        "copying installer.run",
        "packing model",
        "reading model.tar",
    ],
    (*BUNDLE, "--check"): ["reading installer", "reading model.tar"],
}
"""What is among the lines that a command shows, with `#` for numbers."""

FIRST: dict[tuple[str, ...], tuple[str, ...]] = {
    ("undo", "."): MIGRATE,
    ("handover", "check", "../hand-over"): HANDOVER,
    (*BUNDLE, "--check"): (*BUNDLE, "--file", "installer=../installer.run", "--file", "model=../model"),
}
"""What has to run before."""


@pytest.mark.parametrize("arguments", SHOWN, ids=lambda words: " ".join(words)[:50])
def test_a_command_says_what_it_does_on_a_terminal_alone(arguments: tuple[str, ...], project: Path) -> None:
    if arguments in FIRST:
        in_terminal(*FIRST[arguments], cwd=project)
    status, shown, printed = in_terminal(*arguments, cwd=project, piped=True)
    drawn = lines_drawn(shown)
    counted = {re.sub(r"\d+", "#", line) for line in drawn}
    assert [line for line in SHOWN[arguments] if line not in counted] == [], drawn
    assert [row for row in screen(shown) if row.startswith(tuple(drawn))] == []
    assert status in (0, 1), printed + shown
    assert [line for line in drawn if line.encode() in printed] == [], printed.decode()


@pytest.mark.parametrize("arguments", [("scan", ".", "-t", "npu"), ("profile", "show", "../trace.json")])
def test_where_no_terminal_is_nothing_is_shown(arguments: tuple[str, ...], project: Path) -> None:
    _, shown, printed = in_terminal(*arguments, "-f", "json", cwd=project, apart=True)
    assert shown == b""
    assert isinstance(json.loads(printed), dict)
    _, shown, again = in_terminal(*arguments, "-f", "json", cwd=project, piped=True)
    assert lines_drawn(shown) != []
    assert again == printed


def test_many_files_are_counted_in_all_processes(project: Path) -> None:
    for number in range(40):
        (project / f"file_{number}.py").write_text("import torch\n\nx = torch.zeros(1).cuda()\n")
    _, shown, _ = in_terminal("scan", ".", "-t", "npu", "-q", "-j", "3", cwd=project)
    numbers = [int(line.split()[2]) for line in lines_drawn(shown) if line.startswith("examining files")]
    assert numbers == sorted(numbers)
    assert numbers[-1] > 12, "those of other processes count"


@pytest.mark.parametrize(("lang", "text"), [("en", "following imports"), ("zh", "正在追踪导入关系")])
def test_the_line_is_in_the_language_of_the_command(
    lang: str, text: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chinese = {"following imports": "正在追踪导入关系"}
    monkeypatch.setattr("torchferry.core.messages._in_chinese", lambda message: chinese.get(message.template, "?"))
    arguments = (*MIGRATE[:4], "--overlay", "overlay", "--python", "../environment", "--lang", lang)
    _, shown, _ = in_terminal(*arguments, cwd=project)
    assert text in lines_drawn(shown)


def interrupting(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def failing(*_: Any, **__: Any) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("ending", "status", "text"),
    [(interrupting, 130, "interrupted; no partial changes remain"), (failing, 2, "ZeroDivisionError")],
)
def test_an_interruption_and_an_error_stand_alone(
    ending: Callable[..., None], status: int, text: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging._Judge, "judged", ending)
    monkeypatch.setattr(ported_tree, "_with_macros", ending)
    for arguments in (("scan", ".", "-t", "npu"), ("port", ".", "-t", "musa")):
        code, shown, _ = in_terminal(*arguments, cwd=project)
        drawn, rows = lines_drawn(shown), screen(shown)
        assert code == status
        assert drawn != []
        assert [row for row in rows if row.startswith(tuple(drawn))] == []
        assert any(text in row for row in rows), rows


@pytest.mark.parametrize("command", [("run", "-t", "cuda"), ("rehearse", "-t", "npu", "--plugin", "simulated")])
def test_a_program_of_the_users_prints_as_it_does_without_us(command: tuple[str, ...], project: Path) -> None:
    program = "import sys; sys.stderr.write('one'); sys.stdout.write('two\\n'); sys.stderr.write('\\r50 %\\rthree\\n')"
    _, shown, _ = in_terminal(*command, "--", sys.executable, "-c", program, cwd=project)
    assert b"\r50 %\rthree\r\n" in shown
    assert lines_drawn(shown.replace(b"\r50 %\r", b"")) == []


def test_no_name_of_a_stranger_reaches_the_terminal_raw(project: Path) -> None:
    name = "ev\x1b[8m\u202e.json"
    os.rename(project.parent / "trace.json", project / name)
    _, shown, _ = in_terminal("profile", "show", name, cwd=project)
    assert "reading ev\\x1b[8m\\u202e.json" in lines_drawn(shown)
    assert b"\x1b[8m" not in shown
