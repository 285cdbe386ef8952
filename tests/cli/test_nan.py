"""`torchferry nan`: a program that is not changed, and what is said of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.process import torchferry

pytest.importorskip("torch")

PROGRAM = """
import os, sys, torch
from torch import nn

rank, several = int(os.environ.get("RANK", 0)), "RANK" in os.environ
bad = int(os.environ.get("BAD_RANK", -1))

class Root(nn.Module):
    def forward(self, x):
        return (x if rank == bad and self.training else x.abs() + 1).sqrt()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), Root(), nn.Linear(8, 2))
if several:
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.rand(24, 4), batch_size=4, num_workers=2)
for batch in data:
    optimizer.zero_grad()
    loss = model(batch).pow(2).mean()
    loss.backward()
    optimizer.step()
print("ended")
"""


def run(
    tmp_path: Path, *options: object, command: tuple[object, ...] = ("python",), bad: int = -1
) -> tuple[int, str, str]:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    names = ("TORCHFERRY_CACHE", "HOME", "OMP_NUM_THREADS")
    environment = {"BAD_RANK": str(bad), **{name: os.environ[name] for name in names if name in os.environ}}
    done = torchferry("nan", *options, "--", *command, path, cwd=tmp_path, env=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("level", ["watch", "operator"])
def test_a_healthy_program(tmp_path: Path, level: str) -> None:
    code, out, err = run(tmp_path, "--level", level)
    assert (code, out) == (
        0,
        "ended\ntorchferry: 6 steps, nothing that is not finite reached a loss, a gradient or a result\n",
    ), err


@pytest.mark.parametrize("level", ["watch", "operator"])
def test_the_line_is_named(tmp_path: Path, level: str) -> None:
    code, out, err = run(tmp_path, "--level", level, bad=0)
    assert code == 1, err
    lines = out.splitlines()
    assert lines[1] == "torchferry: [WARNING] step 0: nan first came from aten.sqrt, in Sequential.2 (forward)"
    assert lines[2] == f"  {tmp_path / 'train.py'}:10"
    assert lines[-1] == "6 of 6 steps were not finite"


def test_a_program_can_be_ended(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "--stop", "--output-format", "json", bad=0)
    assert code == 1
    assert "NotFiniteError: [WARNING] step 0: nan first came from aten.sqrt" in err
    document = json.loads(out)
    assert document["first"]["origins"][0]["module"] == "Sequential.2"


def test_the_call_is_written_for_replay(tmp_path: Path) -> None:
    run(tmp_path, "--dump", tmp_path / "calls", bad=0)
    (folder,) = (tmp_path / "calls").iterdir()
    environment = {name: os.environ[name] for name in ("HOME",) if name in os.environ}
    done = torchferry("replay", "--nan", folder, cwd=tmp_path, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "fail: result 0" in done.stdout


@pytest.mark.parametrize("level", ["watch", "operator"])
def test_the_rank_that_began_is_named(tmp_path: Path, level: str) -> None:
    torchrun = ("torchrun", "--standalone", "--nproc_per_node", "2")
    code, out, err = run(tmp_path, "--level", level, command=torchrun, bad=1)
    assert code == 1, err
    assert "step 0: nan first came from aten.sqrt, in Sequential.2 (forward)" in out, out + err
    assert "rank 1: [WARNING]" in out


def test_what_loads_no_torch_is_not_called_well(tmp_path: Path) -> None:
    done = torchferry("nan", "--", "python", "-c", "print(1)", cwd=tmp_path)
    assert done.returncode == 2
    assert "NOTHING WAS EXAMINED" in done.stderr


def test_loading_that_is_switched_off_is_said(tmp_path: Path) -> None:
    done = torchferry("nan", "--", "python", "-c", "1", cwd=tmp_path, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 2
    assert "keeps torch from loading the tool" in done.stderr
