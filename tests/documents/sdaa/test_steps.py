"""The SDAA adaptation guide, tried: its environment, its constraints, and its five steps on one program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.cli.process import torchferry
from tests.documents.trial import Trial, dear

pytestmark = pytest.mark.rehearsal

RESNET = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

class Block(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(wide, wide, 3, padding=1), nn.Conv2d(wide, wide, 1)
    def forward(self, x):
        return torch.relu(x + self.conv2(torch.relu(self.conv1(x))))

class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.blocks, self.fc = nn.Conv2d(3, 4, 3), nn.Sequential(Block(4), Block(4)), nn.Linear(4, 10)
    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))

def main():
    rank = int(os.environ.get("LOCAL_RANK", -1))
    if rank >= 0:
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl")
    device = torch.device("cuda", max(rank, 0))
    torch.manual_seed(0)
    model = ResNet50().to(device)
    whole = DistributedDataParallel(model, device_ids=[rank]) if rank >= 0 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    for step in range(4):
        x, y = torch.randn(4, 3, 8, 8, device=device), torch.randint(0, 10, (4,), device=device)
        with torch.cuda.amp.autocast():
            loss = nn.functional.cross_entropy(whole(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {loss.item():.4f}")
    print("top1: 76.1")
    with open(f"ended{rank}.txt", "w") as file:
        print(next(model.parameters()).device, end="", file=file)

if __name__ == "__main__":
    main()
"""
"""The guide's example in small: the name of the model, mixed precision, and a rank for each device."""


@dear
def test_2_the_environment_that_has_the_plugin_is_named(trial: Trial) -> None:
    environments = "home/miniconda3/envs"
    for name in ("paddle_env", "torch_env", "tvm-build"):
        trial.write(f"{environments}/{name}/bin/python", "")
    trial.write("home/miniconda3/bin/python", "")
    trial.write(f"{environments}/torch_env/lib/python3.10/site-packages/torch_sdaa/__init__.py", "")
    home = trial.folder / "home"
    variables = {"HOME": str(home), "CONDA_PREFIX": str(home / "miniconda3"), "CONDA_DEFAULT_ENV": "base"}
    said = torchferry("doctor", "-t", "sdaa", "-f", "json", cwd=trial.folder, env=variables).stdout
    (result,) = [each for each in json.loads(said)["results"] if each["check"] == "python.interpreter"]
    assert "torch_sdaa is in the conda environment torch_env" in result["what"]
    assert f"conda activate {home}/miniconda3/envs/torch_env" in json.dumps(result)


@dear
def test_2_the_import_that_shows_the_environment_ends_well(trial: Trial) -> None:
    trial.rehearsed("sdaa", "-c", "import torch,torch_sdaa")
    versions = json.loads(trial.says("doctor", "snapshot", "-t", "sdaa"))
    assert versions["python"]["torch"]["version"], "a line of the banner"
    assert {"driver", "sdk", "libraries"} <= versions.keys(), "the others, where they can be read"


CONSTRAINED = {
    "torch.cuda.CUDAGraph()": "no counterpart in torch_sdaa",
    "torch.compile(model, mode='max-autotune')": "CMP101",
    "torch.backends.cuda.matmul.allow_tf32 = True": "HIGHPREC",
}


def test_3_2_1_what_the_migration_cannot_carry_is_said_by_its_place(trial: Trial) -> None:
    lines = "\n".join(CONSTRAINED)
    trial.write("net.py", f"import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n{lines}\n")
    said = trial.says("scan", ".", "-t", "sdaa", "-v", code=1)
    for number, (line, words) in enumerate(CONSTRAINED.items(), start=3):
        assert words in said, line
        assert re.search(rf"(net\.py:|^  ){number}:\d", said, re.MULTILINE), line
    assert "convolutions compute in float16 inside unless TORCH_SDAA_CONV_USE_FP32=1 is set" in said


@dear
def test_3_3_an_operator_is_started_and_its_host_part_compiles(trial: Trial) -> None:
    trial.says("ops", "new", "-t", "sdaa", "acme::scale(Tensor x, float by) -> Tensor", "--out", "scale")
    names = {path.name for path in (trial.folder / "scale").iterdir()}
    assert names == {"scale.py", "scale_host.cpp", "scale_kernel.scpp", "setup.py", "test_scale.py"}
    assert "TORCH_LIBRARY" in trial.read("scale/scale_host.cpp")
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    torch = pytest.importorskip("torch.utils.cpp_extension")
    includes = [word for path in torch.include_paths() for word in ("-isystem", path)]
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", *includes, str(trial.folder / "scale/scale_host.cpp")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@dear
def test_3_4_the_layer_whose_precision_is_lost_is_named(trial: Trial) -> None:
    trial.write("train.py", RESNET)
    trial.migrated("sdaa", "train.py")
    tool = (sys.executable, "-m", "torchferry")
    rehearse = ("rehearse", "-t", "sdaa", "--fault")
    said = trial.says(*rehearse, "op=aten.convolution,kind=nan,after=7", "--", *tool, "nan", "--", sys.executable,
                      "train.py", code=1)  # fmt: skip
    assert re.search(r"nan first came from aten\.convolution, in ResNet50\.\S+ \(forward\)", said)
    said = trial.says(*rehearse, "op=aten.convolution,kind=noise,scale=0.3", "--", *tool, "compare", "--",
                      sys.executable, "train.py", code=1)  # fmt: skip
    assert re.search(r"FIRST FAILURE: aten\.convolution in ResNet50\.stem \(forward\), step 0", said)


@dear
def test_3_5_the_time_of_a_step_is_divided_and_a_remedy_is_named(trial: Trial) -> None:
    trial.write("train.py", RESNET.replace("torch.cuda.amp.autocast()", "torch.cuda.amp.autocast(False)"))
    trial.migrated("sdaa", "train.py")
    record = (sys.executable, "-m", "torchferry", "profile", "record", "--out", "trace", "--", sys.executable)
    trial.says("rehearse", "-t", "sdaa", "--", *record, "train.py")
    said = trial.says("profile", "show", "trace")
    assert "aten::convolution" in said
    assert "rehearsed" in said, "a CPU's times are not the card's"
    said = trial.says("advise", "-t", "sdaa", "--trace", "trace", ".")
    assert "[mixed-precision]" in said
    assert "torch_sdaa.optim.FusedSGD" in said


@dear
def test_1_and_2_resnet50_with_many_ranks_is_accepted_and_handed_over(trial: Trial) -> None:
    trial.write("train.py", RESNET)
    trial.write("README.md", "# ResNet50\n\n`python train.py`\n")
    trial.write("requirements.txt", "torch\n")
    trial.migrated("sdaa", "train.py")
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "4", "train.py")
    trial.says("rehearse", "-t", "sdaa", "--", *launcher)
    assert [trial.read(f"ended{rank}.txt") for rank in range(4)] == [f"sdaa:{rank}" for rank in range(4)]
    trial.says("accept", "init")
    said = trial.says("accept", "--rehearse", "-t", "sdaa", "--out", "evidence")
    assert "none red" in said
    for line in ("green +loads: device", "green +runs to the end", "green +errors"):
        assert re.search(line, said), f"{line}\n{said}"
    options = ("--for", "tecorigin-modelzoo", "--domain", "Classification", "--model", "ResNet50", "-o", "../handed")
    trial.says("handover", ".", *options, "--evidence", "evidence", "--unsafe-fixes")
    handed = trial.folder.parent / "handed/PyTorch/contrib/Classification/ResNet50"
    assert {"run_scripts", "train.py", "README.md", "requirements.txt"} <= set(os.listdir(handed))


def test_2_what_else_the_algorithm_needs_leaves_the_images_framework_alone(trial: Trial) -> None:
    trial.write("train.py", "import torch\ntorch.ones(1).cuda()\n")
    trial.write("requirements.txt", "torch==2.0.0\ntorchvision\nnumpy\nPillow==9.0\nnvidia-dali-cuda110\n")
    trial.migrated("sdaa", "train.py", "--kit")
    lines = trial.read("requirements_sdaa.txt").splitlines()
    assert {"torchvision", "numpy", "Pillow==9.0"} <= set(lines)
    assert {"# torch==2.0.0", "# torch_sdaa==1.6.0b0", "# nvidia-dali-cuda110"} <= set(lines), (
        "pip is not to replace it"
    )
