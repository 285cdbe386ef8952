"""Single operators of an accelerator on the CPU, on the simulated card of musa, whose plugin lacks some."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.warm_python import ferry, python

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
    return subprocess.run([python(), "-c", program], cwd=folder, capture_output=True, text=True, check=False)


def test_an_operator_runs_on_the_cpu_and_what_it_costs_is_printed(tmp_path: Path) -> None:
    done = run(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "aten::linalg_matrix_exp" in done.stderr
    assert "360" in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("aten::linalg_matrix_ex", "linalg_matrix_exp"),
        ("aten::matmul", "are composed of other operators"),
        ("aten::_cudnn_rnn", "has no kernel on the CPU"),
    ],
)
def test_what_cannot_run_there_is_refused(name: str, said: str, tmp_path: Path) -> None:
    done = run(f"from torchferry.ops import cpu_fallback\ncpu_fallback([{name!r}])\n", tmp_path)
    assert done.returncode != 0
    assert said in done.stderr


ON_DEVICE = """
import torch, torch_NAME
x = torch.eye(3, device="NAME")
torch.linalg.matrix_exp(x) + x
"""


def rehearsed(folder: Path, target: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(ON_DEVICE.replace("NAME", target), encoding="utf-8")
    command = [ferry(), "-m", "torchferry", "rehearse", "-t", target, *options, "--", python()]
    return subprocess.run(
        [*command, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


@pytest.mark.rehearsal
@pytest.mark.parametrize(
    ("target", "options", "variables", "code", "words"),
    [
        ("musa", (), {}, 1, ("operators that the plugin lacks: 1",)),
        ("musa", ("--fallback", "op=linalg_matrix_exp"), {}, 0,
         ("run on the CPU instead: 1", 'torchferry.ops.cpu_fallback(["aten::linalg_matrix_exp"])')),
        ("musa", ("--fallback", "aten::matmul"), {}, 2, ("composed of other operators",)),
        ("musa", ("--fallback", "rm -rf"), {}, 2, ("not an operator of aten",)),
        ("sdaa", (), {"TORCH_SDAA_FALLBACK_OPS": "add,fused_adam"}, 0, ("aten::add.Tensor  x1", "`fused_adam`")),
        ("npu", ("--plugin", "simulated"), {"NPU_FALLBACK_MODE": "1"}, 0, ("nothing is known to read it",)),
    ],
)  # fmt: skip
def test_a_rehearsal_runs_operators_on_the_cpu(
    target: str, options: tuple[str, ...], variables: dict[str, str], code: int, words: tuple[str, ...], tmp_path: Path
) -> None:
    done = rehearsed(tmp_path, target, *options, **variables)
    assert done.returncode == code, done.stderr
    assert [word for word in words if word not in done.stderr] == [], done.stderr
