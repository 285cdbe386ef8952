"""A pipeline that is tested one after another: the machine, each part, the whole; the first that is wrong is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.warm_python import python
from torchferry.acceptance import evidence

pytest.importorskip("torch")

PARTS = """
import sys
from pathlib import Path

import numpy, torch
from torch import nn

part, device, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
if device == "npu":
    import torch_npu
torch.manual_seed(0)
encoder = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 16)).to(device).eval()
decoder = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 12)).to(device).eval()
words, latent = torch.arange(8).to(device), torch.linspace(-1, 1, 128).reshape(8, 16).to(device)
with torch.no_grad():
    found = {
        "encoder": lambda: encoder(words),
        "decoder": lambda: decoder(latent),
        "pipeline": lambda: decoder(encoder(words)),
    }[part]()
out.mkdir(exist_ok=True)
numpy.save(out / f"{part}.npy", found.cpu().numpy())
"""

FILE = """
schema = 1

[source]
url = "https://example.org/parts"
licence = "MIT"
priority = "official"

[model]
name = "parts"
variant = "PART"

[runs.target]
command = ["PYTHON", "parts.py", "PART", "npu", "out"]

[[gates.outputs]]
kind = "array"
folder = "out"
reference = "reference"
pattern = "PART.npy"
rtol = 1e-4
atol = 1e-4

[gates.not-judged]
environment = "the doctor looks at the machine"
numbers = "a part has no metric of its own"
"""

ORDER = ("encoder", "decoder", "pipeline")


def verdicts(root: Path) -> dict[str, tuple[str, set[str]]]:
    """Accept one part after another, each by its own file, and stop at the first that is not accepted."""
    judged: dict[str, tuple[str, set[str]]] = {}
    for part in ORDER:
        done = torchferry(
            "accept", "--rehearse", "-t", "npu", "--file", f"{part}.toml", "-o", f"evidence-{part}", cwd=root
        )
        assert done.returncode in (0, 1), done.stderr
        found = evidence.read(root / f"evidence-{part}")
        judged[part] = found["verdict"], {gate["gate"] for gate in found["gates"] if gate["status"] == "red"}
        if done.returncode:
            break
    return judged


@pytest.mark.rehearsal
def test_base_then_each_part_then_the_whole(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PARTS, encoding="utf-8")
    for part in ORDER:
        text = FILE.replace("PART", part).replace("PYTHON", python())
        (tmp_path / f"{part}.toml").write_text(text, encoding="utf-8")
        command = [python(), "parts.py", part, "cpu", "reference"]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)

    assert torchferry("setup-test", "-t", "npu@2.13.0", "-o", "setup_test.py", cwd=tmp_path).returncode == 0
    base = torchferry(
        "rehearse", "-t", "npu@2.13.0", "--", sys.executable, "setup_test.py", "--no-network", cwd=tmp_path
    )
    assert "[2/6] device: ok" in base.stdout, base.stdout + base.stderr

    assert verdicts(tmp_path) == dict.fromkeys(ORDER, ("accepted", set()))

    broken = PARTS.replace(
        "with torch.no_grad():", "decoder[0].weight.data.mul_(1 + 0.01 * (device == 'npu'))\n\nwith torch.no_grad():"
    )
    (tmp_path / "parts.py").write_text(broken, encoding="utf-8")
    assert verdicts(tmp_path) == {"encoder": ("accepted", set()), "decoder": ("rejected", {"outputs.out"})}
