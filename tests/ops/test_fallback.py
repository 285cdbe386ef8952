"""Single operators of an accelerator on the CPU, on the simulated card of musa, whose plugin lacks some."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import torchferry.rehearsal
torchferry.rehearsal.enable("musa", plugin="simulated")
import torch
from torchferry.ops import cpu_fallback

counts = cpu_fallback(["aten::linalg_matrix_exp"])
x = torch.eye(3, device="musa", requires_grad=True)
y = torch.linalg.matrix_exp(x)
assert y.device.type == "musa"
assert torch.allclose(y.cpu(), torch.linalg.matrix_exp(torch.eye(3)))
y.sum().backward()
assert x.grad.device.type == "musa"
count = counts["aten::linalg_matrix_exp"]
assert count.calls == 2, count
assert count.bytes == 2 * (36 + 36) + (144 + 144 - 72), count
"""


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)


def test_an_operator_runs_on_the_cpu_and_what_it_costs_is_printed(tmp_path: Path) -> None:
    done = run(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "aten::linalg_matrix_exp" in done.stderr
    assert "360" in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("aten::linalg_matrix_ex", "linalg_matrix_exp"),
        ("aten::matmul", "composed of other operators"),
        ("aten::_cudnn_rnn", "no kernel on the CPU either"),
    ],
)
def test_what_cannot_run_there_is_refused(name: str, said: str, tmp_path: Path) -> None:
    done = run(f"from torchferry.ops import cpu_fallback\ncpu_fallback([{name!r}])\n", tmp_path)
    assert done.returncode != 0
    assert said in done.stderr
