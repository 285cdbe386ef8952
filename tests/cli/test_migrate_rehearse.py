"""`torchferry migrate --rehearse`: the last line of the table, and when the project is called ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.process import torchferry

TRAIN = """import torch
net = torch.nn.Linear(4, 2).cuda()
print(net(torch.ones(8, 4, device="cuda")).sum().item())
open("written.txt", "w").close()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "train.py").write_text(TRAIN)
    return root


@pytest.mark.rehearsal
def test_the_last_line_and_ready(project: Path) -> None:
    done = torchferry("migrate", project, "-t", "npu", "--isolated", "--rehearse", "python train.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ device       `python train.py`: it ended normally on a simulated" in done.stdout
    assert "Ready on the simulated card" in done.stdout
    assert not (project / "written.txt").exists()  # it ran in a copy
    assert "npu" in (project / "train.py").read_text()


@pytest.mark.parametrize("command", ["python -c 1", "python absent.py"])
def test_a_run_that_shows_nothing_is_not_ready(project: Path, command: str) -> None:
    out = project.parent / "out"
    done = torchferry("migrate", project, "-t", "npu", "--isolated", "--out", out, "--rehearse", command)
    assert done.returncode == 1, done.stderr
    assert f"✗ device       `{command}`: NOTHING WAS REHEARSED" in done.stdout
    assert "Ready on" not in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rehearse", "python 'train.py"), "is not a command"),
        (("--rehearse", " "), "needs a command"),
        (("--rehearse", "python train.py", "--check"), "needs a migration that is written"),
        (("--rehearse", "python train.py", "-f", "json"), "needs a migration that is written"),
    ],
)
def test_wrong_use(project: Path, options: tuple[str, ...], said: str) -> None:
    done = torchferry("migrate", project, "-t", "npu", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert (project / "train.py").read_text() == TRAIN
