"""`torchferry compare -- COMMAND`: whole programs, several processes, and the documents that come of it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.warm_python import instead, python
from torchferry.numerics.report.compare import FIELDS

PROGRAM = """
import atexit, os, sys, torch

def gives_the_device_up():  # as a plugin does that was imported when the tool had begun
    if "TORCHFERRY_NUMERICS" in os.environ:
        names = os.listdir(os.environ["TORCHFERRY_NUMERICS"])
        print("the tool has ended:", any(name.startswith("process-") for name in names))

atexit.register(gives_the_device_up)
if len(sys.argv) > 1:
    import torch_npu
    torch.nn.functional.linear(torch.ones(4, 8), torch.ones(16, 8), torch.ones(16))  # no sample of the card's calls
device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(4, 8).to(device)).square().mean().backward()
    optimizer.step()
if os.fork() == 0:
    os._exit(0)
os.wait()
print("drawn", torch.rand(1).item())
"""


def command(tmp_path: Path, *words: str, status: int = 0, warm: bool = True) -> str:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        (instead if warm else list)([sys.executable, "-m", "torchferry", *words]),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        cwd=tmp_path,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout


def document(tmp_path: Path, *words: str, status: int = 0, before: tuple[str, ...] = ()) -> dict[str, Any]:
    file = tmp_path / "found.json"
    command(tmp_path, "compare", "-f", "json", "-o", str(file), *before, "--", *words, status=status)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def rehearsed(*fault: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "torchferry", "rehearse", "-t", "npu", *fault, "--", "python", "train.py", "npu")


def test_a_program_on_the_cpu(tmp_path: Path) -> None:
    text = command(tmp_path, "compare", "--allow-cpu", "--", "python", "train.py", warm=False)
    plain = subprocess.run([python(), "train.py"], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert plain.stdout.strip() in text  # the same numbers are drawn
    assert "the tool has ended: True" in text
    assert "3 steps on cpu: 0 fail, 0 warn, 3 untested" in text
    assert "untested: aten.uniform_, 1 call: the operator draws random numbers" in text  # the biases have few numbers


def test_a_fault_on_the_card(tmp_path: Path) -> None:
    found = document(tmp_path, *rehearsed("--fault", "op=aten.gelu_backward,kind=noise,scale=1e-3"), status=1)
    (rank,) = found["ranks"]
    first = rank["operators"][rank["first_failure"]]
    assert (first["operator"], first["module"], first["phase"]) == ("aten.gelu_backward", "Sequential.1", "backward")
    assert (rank["rank"], rank["steps"], rank["device"]) == (0, 3, "npu:0")
    assert set(first) == set(FIELDS[1:])
    assert rank["counts"]["fail"] >= 1


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("--standard", "given", "--atol", "0.1", "--rtol", "0"), 0),
        (("--standard", "given", "--atol", "0", "--rtol", "1e-4"), 1),
        (("--standard", "given", "--atol", "0", "--rtol", "0.5"), 0),
    ],
    ids=lambda value: " ".join(value[2:]) if isinstance(value, tuple) else "",
)
def test_tolerances_on_the_command_line(options: tuple[str, ...], status: int, tmp_path: Path) -> None:
    calls = "import torch; torch.ones(64, device='npu').exp()"
    program = (*rehearsed("--fault", "op=aten.exp,kind=noise,scale=1e-2")[:-2], "-c", f"import torch_npu; {calls}")
    found = document(tmp_path, *program, status=status, before=("--target-op", "aten.exp", *options))
    (row,) = found["ranks"][0]["operators"]
    assert (row["operator"], row["status"]) == ("aten.exp", "fail" if status else "pass")


def test_dumped_and_stopped(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--output-dir", str(out), "--dump", str(out))
    found = document(tmp_path, *rehearsed("--fault", "op=aten.addmm,kind=noise"), status=1, before=words)
    (rank,) = found["ranks"]
    assert rank["steps"] == 0
    (written,) = rank["replay"]
    assert Path(written).parent == out
    assert "[ERROR] Sequential.0/torch.ops.aten.addmm(forward)" in (out / "compare_result_rank0.txt").read_text()


def test_a_table(tmp_path: Path) -> None:
    text = command(tmp_path, "compare", "--allow-cpu", "-f", "csv", "-o", "table.csv", "--", "python", "train.py")
    assert "drawn" in text
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert {"aten.addmm", "aten.gelu_backward"} <= {row["operator"] for row in rows}
    assert tuple(rows[0]) == FIELDS


def test_ranks(tmp_path: Path) -> None:
    torchrun = ("torchrun", "--standalone", "--nproc_per_node", "2", "train.py")
    logs = ("--allow-cpu", "--output-dir", str(tmp_path / "both"), "--start-step", "1", "--end-step", "2")
    found = document(tmp_path, *torchrun, before=logs)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    assert {row["step"] for rank in found["ranks"] for row in rank["operators"]} == {1}
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == [
        f"compare_result_rank{n}.txt" for n in (0, 1)
    ]
    found = document(tmp_path, *torchrun, before=("--allow-cpu", "--rank", "1", "--output-dir", str(tmp_path / "one")))
    assert [rank["rank"] for rank in found["ranks"]] == [1]
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["compare_result_rank1.txt"]


def test_nothing_to_examine(tmp_path: Path) -> None:
    command(tmp_path, "compare", "--", "python", "-c", "pass", status=2, warm=False)
    calls = "import torch; torch.ones(3).sin()"
    text = command(tmp_path, "compare", "--target-op", "aten.adddmm", "--", "python", "-c", calls, status=2)
    assert "NOTHING WAS COMPARED: no operator with the name aten.adddmm was called" in text
