"""Statements of a program over the simulated plugin of a target, in a process of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torchferry
from tests import warm
from torchferry.backends import registry
from torchferry.backends.datafile import VENDORS
from torchferry.backends.target import Target
from torchferry.core import toml
from torchferry.rehearsal.config import VARIABLE, Rehearsal
from torchferry.rehearsal.profile import make_profile

PACKAGE = Path(torchferry.__file__).parent
PREAMBLE = """
import json, sys, warnings
import torch
warnings.simplefilter("ignore")

def outcome(statement):
    names = {"torch": torch}
    try:
        exec(compile(statement, sys.argv[1], "exec"), names)  # under a file's name: events look for the user's line
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "ok"

statements = json.loads(sys.argv[2])
results = [outcome(statement) for statement in statements]
print(json.dumps(results))
"""


class Process:
    """Statements run in one process, with what each gave and the events of all."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.seen: list[tuple[str, str]] = []

    def run(self, statements: list[str], **environment: str) -> list[str]:
        choice = registry.choose(self.name)
        target = Target(choice.backend, choice.version)
        records = self.folder / "rehearsal"  # the program is not in it
        records.mkdir(exist_ok=True)
        Rehearsal(self.name, make_profile(target, devices=2)).write(records)
        facade = PACKAGE / "vendors" / target.name / "plugin"
        path = os.pathsep.join([str(PACKAGE.parent), str(facade)])
        (done,) = warm.run(
            PREAMBLE,
            arguments=[str(self.folder / "program.py"), json.dumps(statements)],
            environments=[{**os.environ, "PYTHONPATH": path, VARIABLE: str(records), **environment}],
        )
        assert done.returncode == 0, done.stderr
        results: list[str] = json.loads(done.stdout.splitlines()[-1])
        for file in records.glob("process-*.json"):
            document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            self.seen += [(event["kind"], event["subject"]) for event in document["events"]]
        return results


def lists_all_names(name: str) -> bool:
    """Whether the target's api table is to have a row for every name of the CUDA side."""
    described = toml.load_own(VENDORS / registry.choose(name).backend.NAME / "vendor.toml")
    return "api" in described.get("complete", [])


def first(name: str) -> str:
    """Return the import that a program of the target begins with."""
    backend = registry.choose(name).backend
    return f"import {backend.PLUGIN}"


STEP = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 8).to("{device}")
optimizer = {optimizer}
scaler = {amp}.GradScaler(init_scale=8.0)
x = torch.randn(4, 8).to("{device}")
for _ in range(3):
    optimizer.zero_grad()
    with {amp}.autocast():
        loss = model(x).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
assert str(loss.device) == "{device}:0"
assert loss.item() < 10
"""
"""Steps of a training with a scaler."""
