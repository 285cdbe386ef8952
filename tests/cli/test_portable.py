"""`migrate --style portable`: one code base that runs on the CPU and on every rehearsed card, in both forms."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.fixture import TARGETS

pytestmark = pytest.mark.rehearsal

PROJECT = {
    "kit/__init__.py": "",
    "kit/places.py": """
import os

import torch
import torch.distributed as dist

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(backend="nccl"):
    rank = int(os.environ.get("RANK", 0))
    if "RANK" in os.environ:
        torch.cuda.set_device(rank)
        dist.init_process_group(backend if dist.is_nccl_available() else "gloo")
    return torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")


def memory(device):
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
""",
    "train.py": """
import argparse

import torch
import torch.distributed as dist
from torch.cuda.amp import GradScaler, autocast

from kit.places import DEVICE, memory, setup


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    device = setup()
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = GradScaler(enabled=options.amp and device.type == "cuda")
    rows, labels = torch.randn(64, 16), torch.randint(0, 4, (64,))
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    rows, labels = rows[rank::ranks].to("cuda", non_blocking=True), labels[rank::ranks].cuda(non_blocking=True)
    if ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank], output_device=rank)
    for step in range(10):
        with autocast(enabled=options.amp and device.type == "cuda"):
            loss = torch.nn.functional.cross_entropy(model(rows), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if rows.is_cuda:
            torch.cuda.synchronize()
        told = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(told)
        if rank == 0:
            print(f"step {step} loss {told.item() / ranks:.6f}")
    if rank == 0:
        assert memory(device) >= 0
        torch.save(model.state_dict(), "last.pt")
        kept = torch.load("last.pt", map_location="cuda:0")
        print("parameters", len(kept), "on", device.type, DEVICE)


if __name__ == "__main__":
    main()
""",
}

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("PREFERRED_", "LOCAL_RANK", "RANK"))},
    "LC_ALL": "C.UTF-8",
    "CUDA_VISIBLE_DEVICES": "",
}
LOSS = re.compile(r"step \d+ loss ([\d.]+)")


def torchferry(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "torchferry", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=500, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def run(project: Path, target: str, *arguments: str, ranks: int = 1) -> str:
    """Run the program on a rehearsed card, or on the CPU."""
    rehearse = ["-m", "torchferry", "rehearse", "-t", target, "--devices", str(ranks), "--"]
    torchrun = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--standalone"] if ranks > 1 else []
    start = [*torchrun, "train.py", *arguments]
    command = [sys.executable, *start] if target == "cpu" else [sys.executable, *rehearse, "python", *start]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False, timeout=500,
        env={**ENVIRONMENT, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(output: str) -> list[float]:
    return [float(loss) for loss in LOSS.findall(output)]


@pytest.fixture(scope="module", params=["installed", "copied"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project, migrated once, with the installed module or with a copy of it in its package."""
    folder = tmp_path_factory.mktemp(request.param)
    for path, text in PROJECT.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text.lstrip(), encoding="utf-8")
    if request.param == "copied":
        torchferry("device", "vendor", "kit", folder=folder)
    told = torchferry("migrate", ".", "-t", "musa", "--style", "portable", folder=folder)
    assert "Nothing is left to do by hand." in told
    text = (folder / "train.py").read_text(encoding="utf-8")
    assert ("kit.device_utils" in text, "torchferry" in text) == (request.param == "copied", request.param != "copied")
    return folder


def is_copied(project: Path) -> bool:
    return (project / "kit" / "device_utils.py").exists()


def test_one_project_on_every_device(project: Path) -> None:
    there = run(project, "cpu")
    assert "parameters 4 on cpu cpu" in there
    assert len(losses(there)) == 10
    for target in TARGETS if is_copied(project) else ("npu", "ptex"):
        here = run(project, target)
        assert losses(here) == pytest.approx(losses(there), abs=2e-6), target
        assert "parameters 4 on cpu" not in here


def test_mixed_precision_and_several_processes(project: Path) -> None:
    exact = losses(run(project, "cpu"))
    if is_copied(project):
        assert losses(run(project, "cpu", ranks=2)) == pytest.approx(exact, abs=2e-5)
        assert losses(run(project, "sdaa", ranks=2)) == pytest.approx(exact, abs=2e-5)
    else:
        half = losses(run(project, "npu", "--amp"))
        assert half == pytest.approx(exact, abs=2e-2)
        assert half != pytest.approx(exact, abs=2e-6)


def test_a_second_migration_changes_nothing_whatever_the_target(project: Path) -> None:
    for target in TARGETS:
        told = torchferry("migrate", ".", "-t", target, "--style", "portable", "--check", folder=project)
        assert "nothing to rewrite" in told, target


def test_scan_tells_what_a_target_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torchferry.device\n\ns = torchferry.device.Stream()\n", encoding="utf-8")
    assert "CUD111" not in torchferry("scan", ".", "-t", "npu", folder=tmp_path)
    assert "3:5 CUD111" in torchferry("scan", ".", "-t", "ptex", folder=tmp_path)
