"""Four real programs on the simulated card: all gates green; spoiled, each gate red under its own name."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

import torchferry
from tests.acceptance.toys import PROGRAM, README
from tests.processes import HANGS
from tests.warm_python import ferry, python
from torchferry.acceptance import evidence
from torchferry.handover.evidence import read_accept_evidence

pytest.importorskip("torch")

FILE = r"""
schema = 1

[source]
url = "https://example.org/toys"
licence = "MIT"
priority = "official"

[model]
name = "toys"
variant = "small"

[baseline]
device = "this machine's CPU"
date = 2026-01-31
versions = { torch = "2.13.0" }
log = "cuda.log"

[[baseline.metrics]]
name = "loss"
value = 0.002
direction = "<="
tolerance = 0.001

[[baseline.metrics]]
name = "mIoU"
value = 100.0
unit = "%"
direction = "±"
tolerance = 0.05

[[baseline.metrics]]
name = "Acc@1"
value = 1.0
unit = "share"
direction = ">="
tolerance = 0.0005

[runs.target]
command = COMMAND
time-limit = "5 min"

[gates.curve]
metric = "loss"
rule = "relative"

[[gates.outputs]]
kind = "array"
folder = "out"
reference = "reference"
pattern = "*.npy"
rtol = 1e-4
atol = 1e-4

[gates.memory]
peak = "16 MiB"

[gates.logs]
lines = { loss = 'step \d+ loss \d', throughput = '\d tokens/s' }

[gates.documents]
required = ["README.md"]
commands = ["python -m compileall -q toys.py"]

[gates.not-judged]
environment = "the doctor has tests of its own"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated project with the baseline that the same program has on the CPU."""
    root = tmp_path_factory.mktemp("toys")
    (root / "toys.py").write_text(PROGRAM, encoding="utf-8")
    (root / "README.md").write_text(README, encoding="utf-8")
    log, argv = io.StringIO(), sys.argv
    sys.argv = ["toys.py", "cpu", str(root / "reference")]
    try:
        with contextlib.redirect_stdout(log):
            runpy.run_path(str(root / "toys.py"), run_name="__main__")
    finally:
        sys.argv = argv
    (root / "cuda.log").write_text(log.getvalue(), encoding="utf-8")
    return root


def accept(root: Path, command: list[str], *options: str, change: tuple[str, str] = ("", "")) -> tuple[Any, str, int]:
    """Judge the project with a command; return the evidence, what was printed, and the exit code."""
    text = FILE.replace("COMMAND", json.dumps(command)).replace(*change)
    (root / "torchferry.accept.toml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [ferry(), "-m", "torchferry", "accept", "--rehearse", "-t", "npu", *options],
        cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}, capture_output=True, text=True,
        check=False, timeout=HANGS,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return evidence.read(root / "evidence"), done.stdout + done.stderr, done.returncode


def statuses(found: dict[str, Any]) -> dict[str, str]:
    return {gate["gate"]: gate["status"] for gate in found["gates"]}


@pytest.mark.rehearsal
def test_green_and_then_red_under_the_gates_own_names(project: Path) -> None:
    found, said, code = accept(project, [python(), "toys.py", "npu", "out"])
    schema = Path(torchferry.__file__).parent / "acceptance" / "evidence.schema.json"
    jsonschema.validate(found, json.loads(schema.read_text(encoding="utf-8")))
    green = statuses(found)
    assert code == 0, said
    # the first steps of a process make it larger, and Python decides when that ends
    assert {name for name, status in green.items() if status == "not-judged"} - {"memory.host-growth"} == {
        "environment", "documents.source", "migration.files", "migration.paths", "speed", "stability.soak",
    }, said  # fmt: skip
    assert "red" not in green.values()
    assert green["errors"] == green["loads.weights"] == green["memory.growth"] == "green"
    assert found["verdict"] == "accepted"
    assert "ACCEPTED ON THE REHEARSAL" in said
    assert found["runs"][0]["steps"] == 210
    page = (project / "evidence" / "index.html").read_text(encoding="utf-8")
    assert "://" not in page.replace("https://example.org/toys", "")
    assert "polyline" in page

    handed = read_accept_evidence(project / "evidence")  # the reader of `torchferry handover`
    assert (handed.rehearsal, handed.verdict, handed.target) == (True, "accepted", "npu")
    assert handed.source["url"] == "https://example.org/toys"
    assert {metric.name: metric.baseline for metric in handed.metrics} == {
        "loss": "0.002", "mIoU": "100 %", "Acc@1": "1 share",
    }  # fmt: skip
    assert not any(metric.measured for metric in handed.metrics)  # no figure of a rehearsal is one of the card
    assert (handed.seconds, handed.peak_memory, handed.versions, handed.card) == (None, None, {}, "")

    spoiled = [python(), "toys.py", "npu", "out", "noise", "leak", "nan", "silent"]
    broken, said, code = accept(project, spoiled, change=("compileall -q toys.py", "compileall -q absent.py"))
    assert code == 1
    assert broken["verdict"] == "rejected"
    red = {name for name, status in statuses(broken).items() if status == "red"}
    assert red >= {
        "numbers.mIoU", "numbers.Acc@1", "outputs.out",  # 1 % noise in the checkpoint
        "memory.growth",  # tensors kept in a list
        "numbers.loss", "numbers.curve", "stability.run",  # NaN at step 50
        "logs.throughput",  # a line that is missing
        "documents.command-1",  # a command that the README does not have
    }, said  # fmt: skip
    assert red <= set(green) - {"loads.device", "runs", "runs.device", "syntax", "logs.loss", "migration.residue"}
    assert "value 51 of " in said
