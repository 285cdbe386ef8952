"""`torchferry nan`: a program that is not changed, and what is said of it."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import torchferry
from tests.warm_python import instead
from torchferry.numerics.framework.launcher import Outcome
from torchferry.numerics.report import nan as summary

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
    tmp_path: Path, *options: object, command: tuple[object, ...] = ("python",), bad: int = -1, warm: bool = True
) -> tuple[int, str, str]:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    names = ("TORCHFERRY_CACHE", "HOME", "OMP_NUM_THREADS")
    environment = {"BAD_RANK": str(bad), **{name: os.environ[name] for name in names if name in os.environ}}
    command = tuple(instead(command)) if warm else command
    done = torchferry("nan", *options, "--", *command, path, cwd=tmp_path, env=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("level", ["watch", "operator"])
def test_a_healthy_program(tmp_path: Path, level: str) -> None:
    code, out, err = run(tmp_path, "--level", level, warm=level == "operator")
    assert (code, out) == (
        0,
        "ended\ntorchferry: 6 steps, all losses, gradients and results were finite\n",
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


SPAWNS = """
import os, sys, torch
import torch.distributed as dist

def work(rank):
    dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], 2), rank=rank, world_size=2)
    values = torch.nn.Identity()(torch.ones(3)) - 2
    if rank:
        values.sqrt()
    dist.barrier()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=2)
"""


def test_ranks_that_the_program_gives_itself(tmp_path: Path) -> None:
    program = tmp_path / "spawns.py"
    program.write_text(SPAWNS, encoding="utf-8")
    names = ("TORCHFERRY_CACHE", "HOME", "OMP_NUM_THREADS")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    command = ("nan", "--level", "operator", "--rank", "1", "-f", "csv", "--", "python", program, tmp_path / "store")
    done = torchferry(*command, cwd=tmp_path, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert (row["rank"], row["operator"], row["kind"], row["phase"]) == ("1", "aten.sqrt", "nan", "forward")


def outcome(*ranks: dict[str, Any]) -> Outcome:
    return Outcome(0, tuple({"rank": number, "steps": 3, **one} for number, one in enumerate(ranks)), ())


WELL = "3 steps, all losses, gradients and results were finite"


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({}, ""),
        ({"unread": {"DTensor float32 torch.strided": 2}}, "2 gradients or losses that cannot be read"),
        ({"unlooked": 9}, "9 calls of models"),
        ({"unlooked_results": 9}, "9 results of operators"),
        ({"captured": 4}, "not examined: 4 calls in a captured graph"),
        ({"error": "Traceback\nRuntimeError: mine"}, "RuntimeError: mine"),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_what_was_not_looked_at_is_not_called_well(left: dict[str, Any], said: str, rank: int) -> None:
    result = summary.document(outcome(*([{}] * rank), left), ["python"], "watch")
    text = "\n".join(summary.lines(result, "en"))
    assert said in text
    assert (WELL in text) is (not left)
    assert summary.failed(result) is ("error" in left)


def test_the_table_has_a_row_for_each_call() -> None:
    origin = {
        "operator": "aten.log",
        "phase": "forward",
        "module": "M, a",
        "source": "",
        "kind": "nan",
        "line": "m.py:1",
    }
    early = {"step": 1, "origins": [], "notes": ["not seen", "so"]}
    late = {"step": 2, "origins": [origin, {**origin, "operator": "aten.sqrt"}], "notes": [], "dump": "calls/1"}
    result = summary.document(outcome({"findings": [late]}, {"findings": [early]}), ["python"], "watch")
    rows = list(csv.reader(io.StringIO(summary.table(result))))
    assert rows == [
        list(summary.FIELDS),
        ["1", "1", "", "", "", "", "", "", "not seen; so", ""],
        ["0", "2", "nan", "aten.log", "M, a", "forward", "", "m.py:1", "", "calls/1"],
        ["0", "2", "nan", "aten.sqrt", "M, a", "forward", "", "m.py:1", "", "calls/1"],
    ]


BAD = """
import os, signal, sys, torch
os.environ["RANK"] = "3"
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.rand(2, 4)).sub(9).sqrt().sum().backward()
    optimizer.step()
if "killed" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["", "killed"])
def test_a_finding_is_told_once_and_is_not_lost_with_its_process(tmp_path: Path, end: str) -> None:
    (tmp_path / "bad.py").write_text(BAD, encoding="utf-8")
    done = torchferry("nan", "--", *instead(["python", "bad.py"]), *([end] if end else []), cwd=tmp_path)
    assert done.returncode != 0
    assert (done.stdout + done.stderr).count("input 0: float32[2, 4]") == 1, done.stderr
    assert "rank 3: [WARNING] step 0 was not finite" in done.stderr
    assert (done.stdout + done.stderr).count("nan first came from aten.sqrt") == 1, done.stdout
    assert ("ended without a report" in done.stdout) is bool(end)
