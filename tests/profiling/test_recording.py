"""Steps of real processes are recorded without an edit of the program."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest

from tests.processes import HANGS
from tests.warm_python import ferry, python

pytest.importorskip("torch")

PROGRAM = """
import os, sys, torch
from torch import nn

rank = int(os.environ.get("RANK", 0))
if "WORLD_SIZE" in os.environ:
    torch.distributed.init_process_group("gloo")
device = sys.argv[1]
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(int(sys.argv[2])):
    optimizer.zero_grad()
    model(torch.ones(4, 8, device=device)).sum().backward()
    if device == "npu":
        torch.linalg.eigvalsh(torch.eye(2, device=device))
    optimizer.step()
"""


FULL_DISK = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))\n"
"""The trace is longer, so its end cannot be written."""


def torchferry(*words: str, folder: Path, command: str = "profile") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    whole = [ferry(), "-m", "torchferry", command, *words]
    return subprocess.run(
        whole, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANGS, check=False
    )


def test_ranks_on_the_cpu_and_a_rehearsed_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    launcher = (python(), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "train.py")
    recorded = torchferry("--out", "cpu", "--repeat", "2", "--memory", "--", *launcher, "cpu", "12", folder=tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    assert len(recorded.stdout.split()) == 4
    assert sorted(path.name for path in (tmp_path / "cpu").iterdir()) == [".gitignore", "worker0", "worker1"]
    assert (tmp_path / "cpu" / ".gitignore").read_text() == "*\n"  # of a project they are no part
    shown = torchferry("show", "cpu", "--by", "module", folder=tmp_path)
    assert "2 earlier traces in the folder are not counted" in shown.stdout
    assert "rank 0 of 2, CPU only, 2 steps" in shown.stdout
    assert "Sequential_0.Linear_0" in shown.stdout

    rehearsed = torchferry("-t", "npu", "--out", "npu", "--", python(), "train.py", "npu", "8", folder=tmp_path)
    assert rehearsed.returncode == 0, rehearsed.stderr
    shown = torchferry("show", "npu", folder=tmp_path)
    assert "the run was rehearsed on npu@" in shown.stdout
    assert "aten::addmm" in shown.stdout
    fallen = shown.stdout.partition("operators that went to the CPU")[2].splitlines()[1]
    assert fallen.split() == ["aten::_linalg_eigh.eigenvalues", "1.0"]
    line = 1 + PROGRAM[: PROGRAM.index("torch.linalg")].count("\n")
    words = ("-t", "npu", "--trace", "npu", "-f", "json", "train.py")
    advised = torchferry(*words, folder=tmp_path, command="advise")
    pieces = {piece["kind"]: piece for piece in json.loads(advised.stdout)["advice"]}
    assert pieces["cpu-fallback"]["places"][0]["line"] == line

    again = torchferry("--out", "npu", "--", python(), "train.py", "cpu", "8", folder=tmp_path)
    assert again.returncode == 2
    assert "is not an empty folder" in again.stderr


PIPELINE = """
import torch
from torch import nn

encoder, denoiser = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU())
with torch.no_grad():
    x = encoder(torch.ones(4, 8))
    for step in range(6):
        x = denoiser(x)
"""


@pytest.mark.parametrize(
    ("program", "steps"),
    [
        (PIPELINE, 2),
        (PIPELINE.replace("denoiser(x)", "torch.jit.trace(denoiser, x)(x)"), 2),  # whose calls trace the model too
        (PIPELINE.replace("with torch", "torch.optim.SGD(encoder.parameters(), 0.1)\nwith torch"), 0),
    ],
)
def test_a_program_without_an_optimizer_has_a_step_for_each_call_of_a_model(
    program: str, steps: int, tmp_path: Path
) -> None:
    (tmp_path / "sample.py").write_text(program.replace("\ntorch.optim", "\nkept = torch.optim"), encoding="utf-8")
    result = torchferry("--out", "traces", "--stack", "--", python(), "sample.py", folder=tmp_path)
    assert result.returncode == (0 if steps else 2), result.stderr
    if not steps:
        assert "NOTHING WAS RECORDED: no step ended" in result.stderr
        return
    shown = torchferry("show", "traces", "--by", "module", folder=tmp_path)
    assert f"{steps} steps" in shown.stdout
    assert "  Sequential_0.Linear_" in shown.stdout  # once, though torch marks modules too where it keeps stacks
    assert "  sample.py(9): <module>" in torchferry("show", "traces", "--by", "stack", folder=tmp_path).stdout


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (PROGRAM, "NOTHING WAS RECORDED: 2 steps ended, and 5 are needed"),
        ("import torch\ntorch.ones(2)\n", "NOTHING WAS RECORDED: no step ended"),
        ("print()\n", "NOTHING WAS EXAMINED"),
        (FULL_DISK + PROGRAM.replace("int(sys.argv[2])", "6"), "the profiler failed: OSError: torch could not write"),
    ],
)
def test_nothing_recorded_is_no_success(program: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    result = torchferry("--", python(), "train.py", "cpu", "2", folder=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert not list(tmp_path.rglob("*.trace.json*"))


def test_marks_of_two_threads_and_of_what_raised_are_closed_by_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from torchferry.profiling import recorder
    from torchferry.profiling.records import MODULE_PREFIX

    class Mark:
        opened: ClassVar[list[tuple[int, str]]] = []
        wrong: ClassVar[list[str]] = []

        def __init__(self, name: str) -> None:
            self.name = name.removeprefix(MODULE_PREFIX)

        def __enter__(self) -> None:
            self.opened.append((threading.get_ident(), self.name))

        def __exit__(self, *_: object) -> None:
            own = [entry for entry in self.opened if entry[0] == threading.get_ident()]
            if not own or own[-1][1] != self.name:
                self.wrong.append(self.name)
            else:
                self.opened.remove(own[-1])

    class Meeting(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            meeting.wait(HANGS)
            return x

    class Refused(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError

    meeting = threading.Barrier(2)
    monkeypatch.setattr(recorder, "_new_mark", Mark)
    models = [torch.nn.Sequential(Meeting(), torch.nn.Sequential(Meeting())) for _ in range(2)]
    ranges = recorder.ModuleRanges()
    ranges.start()
    try:
        threads = [threading.Thread(target=model, args=(torch.ones(1),)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with contextlib.suppress(ValueError):
            torch.nn.Sequential(torch.nn.Identity(), Refused())(torch.ones(1))
        torch.nn.Identity()(torch.ones(1))
    finally:
        ranges.stop()
    assert (Mark.opened, Mark.wrong) == ([], [])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-o", "file"), "cannot write file: File exists"),
        (("--out", "file/inner"), "cannot write file/inner: Not a directory"),
        (("--out", "/proc/none"), "cannot write /proc/none: No such file or directory"),
        (("--out", "full"), "full is not an empty folder"),
        (("--fast",), "no such option: --fast"),
    ],
    ids=str,
)
def test_where_nothing_can_be_written_nothing_runs(options: tuple[str, ...], says: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    for name in ("file", "full/file"):
        (tmp_path / name).touch()
    done = torchferry(*options, "--", sys.executable, "-c", "open('ran', 'w')", folder=tmp_path)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "ran").exists()
