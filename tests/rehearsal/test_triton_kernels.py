"""Triton kernels run in a rehearsal as their language means them; what the card refuses of a launch is a finding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.rehearsal.test_shipped_plugin import wheel, with_wheel
from tests.rehearsal.triton_wheel import with_triton
from tests.warm_python import ferry

pytestmark = pytest.mark.rehearsal

PROGRAM = """
import sys
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.math import rsqrt


@triton.jit
def twice(x):
    return x + x


@triton.jit
def elements(x, y, n, eps, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n, other=1.0)
    tl.store(y + o, twice(libdevice.tanh(v)) + rsqrt(v + eps.to(tl.float32)), mask=o < n)


@triton.jit
def softmax(x, y, stride, n, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * stride + o, mask=o < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + tl.program_id(0) * stride + o, e / tl.sum(e, axis=0), mask=o < n)


@triton.autotune(configs=[triton.Config({"B": 16}, num_warps=4), triton.Config({"B": 32}, num_warps=8)], key=["n"])
@triton.jit
def product(a, b, c, n, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    k = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), dtype=tl.float32)
    for i in range(0, n, B):
        j = i + tl.arange(0, B)
        left = tl.load(a + m[:, None] * n + j[None, :], mask=(m[:, None] < n) & (j[None, :] < n), other=0.0)
        right = tl.load(b + j[:, None] * n + k[None, :], mask=(j[:, None] < n) & (k[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * n + k[None, :], total, mask=(m[:, None] < n) & (k[None, :] < n))


@triton.jit
def sums(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(y + o % 4, tl.load(x + o, mask=o < n, other=0.0), mask=o < n)


device = sys.argv[1]
torch.manual_seed(0)
x, a, b = torch.rand(100) + 0.5, torch.rand(40, 40), torch.rand(40, 40)
y, s, c, t = (torch.zeros(size, device=device) for size in ((100,), (40, 40), (40, 40), (4,)))
xd, ad, bd = x.to(device), a.to(device), b.to(device)
elements[(4,)](xd, y, 100, 0.25, B=32)
softmax[(40,)](ad, s, 40, 40, B=64)
product[lambda meta: (triton.cdiv(40, meta["B"]), triton.cdiv(40, meta["B"]))](ad, bd, c, 40)
sums[(101,)](xd, t, 100, B=1)
try:
    sums.warmup(xd, t, 100, B=1, grid=(1,))
except AttributeError:
    pass
torch.testing.assert_close(y.cpu(), 2 * x.tanh() + (x + 0.25).rsqrt())
torch.testing.assert_close(s.cpu(), a.softmax(-1))
torch.testing.assert_close(c.cpu(), a @ b)
torch.testing.assert_close(t.cpu(), x.reshape(25, 4).sum(0))
driver = triton.runtime.driver.active
print(driver.get_current_target().backend, driver.get_active_torch_device().type)
for call in (
    lambda: elements[(4,)](xd, torch.empty(100), 100, 0.25, B=32),
    lambda: elements[(70_000 if device == "npu" else 4,)](xd, y, 100, 0.25, B=32),
    lambda: elements[(4,)](xd, y[:3].clone(), 100, 0.25, B=32),
):
    try:
        call()
    except RuntimeError as error:
        print("refused:", error)
"""


def rehearsed(folder: Path, text: str, *options: str, given: str = "") -> tuple[Any, list[dict[str, Any]]]:
    """Return the process of a rehearsal, and its events."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    run = subprocess.run(
        [
            *(ferry(), "-m", "torchferry", "rehearse", *options),
            *("--summary-file", "summary.json", "--", sys.executable, "train.py", given),
        ],
        capture_output=True,
        text=True,
        timeout=HANGS,
        cwd=folder,
        env=with_triton({**ENVIRONMENT, "OMP_NUM_THREADS": "1"}),
        check=False,
    )
    return run, json.loads((folder / "summary.json").read_text())["events"]


@pytest.mark.parametrize(
    ("target", "plugin", "refused"),
    [
        ("npu", "simulated", {"mixed-devices", "kernel-limit", "out-of-bounds"}),
        pytest.param("npu", "wheel", {"mixed-devices", "kernel-limit", "out-of-bounds"}, marks=with_wheel),
        ("musa", "simulated", {"mixed-devices", "out-of-bounds"}),
    ],
)
def test_kernels_give_the_numbers_of_the_cpu(target: str, plugin: str, refused: set[str], tmp_path: Path) -> None:
    chosen = str(wheel()) if plugin == "wheel" else plugin
    run, events = rehearsed(tmp_path, PROGRAM, "-t", target, "--plugin", chosen, given=target)
    assert f"{target} {target}" in run.stdout, run.stdout + run.stderr
    kernels = {event["subject"] for event in events if event["kind"] == "interpreted-kernel"}
    assert kernels == {"elements", "softmax", "product", "sums"}
    assert "triton.jit(...).warmup" in {event["subject"] for event in events if event["kind"] == "not-rehearsed"}
    assert {event["kind"] for event in events if "Triton kernel" in event["subject"]} == refused
    assert run.stdout.count("refused:") == len(refused)
    assert "the card's compiler" in run.stderr


def test_a_card_without_triton_says_so(tmp_path: Path) -> None:
    run, events = rehearsed(tmp_path, "import torch\nimport triton\n", "-t", "sdaa")
    assert "WOULD FAIL" in run.stderr, run.stderr
    (event,) = [each for each in events if each["subject"] == "triton"]
    assert (event["kind"], event["file"].rpartition("/")[2], event["line"]) == ("missing-api", "train.py", 2)
