"""`migrate --style portable`: one code base that runs on the CPU and on every rehearsed card, in both forms."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import HANGS
from tests.rules.fixture import TARGETS
from tests.warm_python import ferry, instead

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
        [ferry(), "-m", "torchferry", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def run(project: Path, target: str, *arguments: str, ranks: int = 1) -> str:
    """Run the program on a rehearsed card, or on the CPU."""
    rehearse = ["-m", "torchferry", "rehearse", "-t", target, "--devices", str(ranks), "--"]
    torchrun = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--standalone"] if ranks > 1 else []
    start = [*torchrun, "train.py", *arguments]
    program = instead([sys.executable, *start])
    command = program if target == "cpu" else [ferry(), *rehearse, *program]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False, timeout=HANGS,
        env={**ENVIRONMENT, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(output: str) -> list[float]:
    return [float(loss) for loss in LOSS.findall(output)]


@pytest.fixture(scope="module", params=["installed", "copied"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project, migrated once, with the installed module or with a file of what it uses."""
    folder = tmp_path_factory.mktemp(request.param)
    write(folder, PROJECT)
    options = ["--device-module", "package"] if request.param == "installed" else []
    told = torchferry("migrate", ".", "-t", "musa", "--style", "portable", *options, folder=folder)
    assert "Nothing remains for you to do." in told
    text = (folder / "train.py").read_text(encoding="utf-8")
    assert ("import device_utils" in text, "torchferry" in text) == (not options, bool(options))
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text.lstrip(), encoding="utf-8")


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
    options = [] if is_copied(project) else ["--device-module", "package"]
    for target in TARGETS:
        told = torchferry("migrate", ".", "-t", target, "--style", "portable", "--check", *options, folder=project)
        assert "nothing to rewrite" in told, target


SMALL = {
    "one/train.py": "import torch\n\nprint(torch.ones(1).cuda().sum())\n",
    "two/main.py": "import torch\n\nx = torch.ones(2).to('cuda' if torch.cuda.is_available() else 'cpu')\n",
}


def portable(folder: Path, *options: str) -> str:
    return torchferry("migrate", ".", "-t", "npu", "--style", "portable", *options, folder=folder)


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
        if ".torchferry" not in path.parts
    }


def test_the_file_grows_with_the_code_and_goes_with_undo(tmp_path: Path) -> None:
    write(tmp_path, SMALL)
    before = files(tmp_path)
    assert "diff --git a/one/device_utils.py" in portable(tmp_path, "--diff")
    assert files(tmp_path) == before
    portable(tmp_path)
    first = files(tmp_path)
    assert sorted(set(first) - set(before)) == ["one/device_utils.py", "two/device_utils.py"]
    done = subprocess.run(
        [sys.executable, "one/train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert done.stdout == "tensor(1.)\n", done.stderr
    assert "nothing to rewrite" in portable(tmp_path, "--check")
    write(tmp_path, {"one/train.py": first["one/train.py"] + "torch.cuda.empty_cache()\n"})
    portable(tmp_path, "--allow-dirty")
    second = files(tmp_path)
    assert "# torchferry-names: empty_cache this_device\n" in second["one/device_utils.py"]
    assert second["two/device_utils.py"] == first["two/device_utils.py"]
    torchferry("undo", ".", folder=tmp_path)
    assert files(tmp_path)["one/device_utils.py"] == first["one/device_utils.py"]
    write(tmp_path, {"one/train.py": first["one/train.py"]})
    torchferry("undo", ".", folder=tmp_path)
    assert files(tmp_path) == before


def test_a_file_that_has_two_names_is_written_once(tmp_path: Path) -> None:
    """A program in a package's folder imports it as its neighbour, the others as a part of the package."""
    write(
        tmp_path,
        {
            "kit/__init__.py": "",
            "kit/run.py": "import torch\nimport net\n\nif __name__ == '__main__':\n    print(torch.ones(1).cuda())\n",
            "kit/net.py": "import torch\n\n\ndef clear():\n    torch.cuda.empty_cache()\n",
            "kit/memory.py": "import torch\n\n\ndef wait():\n    torch.cuda.synchronize()\n",
            "train.py": "import kit.memory\n\nif __name__ == '__main__':\n    kit.memory.wait()\n",
        },
    )
    before = files(tmp_path)
    portable(tmp_path)
    after = files(tmp_path)
    assert "import device_utils\n" in after["kit/net.py"]
    assert "from kit import device_utils\n" in after["kit/memory.py"]
    assert "# torchferry-names: empty_cache synchronize this_device\n" in after["kit/device_utils.py"]
    torchferry("undo", ".", folder=tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("present", "told"),
    [
        ("def device():\n    return 1\n", "torchferry did not write it"),
        (None, "was edited since torchferry wrote it, and lacks empty_cache"),
    ],
)
def test_a_file_of_the_users_own_is_not_replaced(present: str | None, told: str, tmp_path: Path) -> None:
    write(tmp_path, SMALL)
    place = tmp_path / "one/device_utils.py"
    if present is None:
        portable(tmp_path)
        present = place.read_text(encoding="utf-8") + "# mine\n"
        with (tmp_path / "one/train.py").open("a", encoding="utf-8") as program:
            program.write("torch.cuda.empty_cache()\n")
    place.write_text(present, encoding="utf-8")
    before = files(tmp_path)
    done = subprocess.run(
        [ferry(), "-m", "torchferry", "migrate", ".", "-t", "npu", "--style", "portable", "--allow-dirty"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert files(tmp_path) == before


def test_a_copy_and_files_beside_take_it_along(tmp_path: Path) -> None:
    write(tmp_path / "project", SMALL)
    portable(tmp_path / "project", "--out", "../copy")
    assert "one/device_utils.py" in files(tmp_path / "copy")
    portable(tmp_path / "project", "--suffix", "_npu")
    found = files(tmp_path / "project")
    assert sorted(found) == [
        "one/device_utils.py", "one/train.py", "one/train_npu.py", "two/device_utils.py", "two/main.py",
        "two/main_npu.py",
    ]  # fmt: skip
    assert "import device_utils\n" in found["one/train_npu.py"]


COMPILED = """
import torch
from torch.nn.utils.rnn import pack_sequence


class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.is_cuda and x.device.type == "cuda" else x * 3


@torch.compile(backend="eager", fullgraph=True)
def step(x):
    if torch.cuda.is_available() and x.device.type != "cuda":
        x = x.cuda()
    y = torch.zeros(2, 2, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return (x @ x).float() + y


def has(name):
    return hasattr(torch.cuda, name)


if __name__ == "__main__":
    backend = torch.cuda
    backend.empty_cache()
    there = torch.ones(2, 2, device="cuda")
    whole = torch.compile(Net(), backend="eager", fullgraph=True)
    print(step(torch.ones(2, 2)).sum().item(), step(there).sum().item())
    print(whole(there).sum().item(), torch.jit.script(Net())(there).sum().item())
    print(has("Stream"), has("memory_allocated"), has("no_such_name"), backend.device_count())
    print(pack_sequence([there]).is_cuda, there.untyped_storage().is_cuda)
"""


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("cpu", "8.0 8.0\n12.0 12.0\nTrue True False 0\nFalse False\n"),
        ("npu", "8.0 8.0\n8.0 8.0\nTrue True False 1\nTrue True\n"),
    ],
)
def test_what_is_compiled_and_what_is_asked_by_name(target: str, told: str, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": COMPILED})
    assert "Nothing remains for you to do." in portable(tmp_path)
    assert told in run(tmp_path, target)


def test_scan_tells_what_a_style_would_leave(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "import torch\n\ntorch.cuda.set_sync_debug_mode(1)\nx = torch.ones(1).cuda()\n"})
    for style, codes in (("portable", [("CUD104", "manual"), ("DEV103", "safe")]), ("shim", [])):
        options = [".", "-t", "npu", "--style", style, "-f", "json"]
        report = json.loads(torchferry("scan", *options, folder=tmp_path))
        assert report["style"] == style
        left = [(item["code"], item["grade"]) for item in report["findings"] if item["grade"] != "note"]
        assert [item for item in left if item[0] in ("CUD104", "DEV103")] == codes
        would = json.loads(torchferry("migrate", "--check", *options, folder=tmp_path))
        assert report["findings"] == would["findings"]
    for options in (["--plan"], ["--rehearse", "python a.py"]):
        done = subprocess.run(
            [ferry(), "-m", "torchferry", "scan", ".", "-t", "npu", "--style", "portable", *options],
            cwd=tmp_path, capture_output=True, text=True, check=False, env=ENVIRONMENT,
        )  # fmt: skip
        assert (done.returncode, "work only with `--style native`" in done.stderr) == (2, True)


def test_scan_tells_what_a_target_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torchferry.device\n\ns = torchferry.device.Stream()\n", encoding="utf-8")
    assert "CUD111" not in torchferry("scan", ".", "-t", "npu", folder=tmp_path)
    assert "a.py:3:5" in torchferry("scan", ".", "-t", "ptex", folder=tmp_path)
