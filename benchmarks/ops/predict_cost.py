"""What `torchferry ops predict` of a ResNet-50 training step costs over importing torch, in CPU seconds.

    python benchmarks/ops/predict_cost.py [--target musa] [--repeat 5]

CPU seconds are user and system time of the processes, so they hold while others work on the machine; printed is the
smallest of the repetitions, which others disturb least. The model is written here, so that no other package is timed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = """\
import torch
from torch import nn

def unit(inside, outside, size, stride=1):
    return nn.Sequential(nn.Conv2d(inside, outside, size, stride, size // 2, bias=False), nn.BatchNorm2d(outside))

class Block(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.path = nn.Sequential(unit(inside, width, 1), nn.ReLU(True), unit(width, width, 3, stride), nn.ReLU(True),
                                  unit(width, 4 * width, 1))
        straight = stride == 1 and inside == 4 * width
        self.beside = nn.Identity() if straight else unit(inside, 4 * width, 1, stride)
    def forward(self, x):
        return torch.relu(self.path(x) + self.beside(x))

def build():
    layers, inside = [unit(3, 64, 7, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 64
    for index, count in enumerate((3, 4, 6, 3)):
        for number in range(count):
            width = 64 << index
            layers.append(Block(inside, width, 2 if index and not number else 1))
            inside = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))
    return model, (torch.randn(32, 3, 224, 224),)
"""


def cost(command: list[str], folder: Path) -> float:
    """Run a command; returns the CPU seconds of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="musa")
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its modules compiled
    predict = [sys.executable, "-m", "torchferry", "ops", "predict", "-t", chosen.target, "-o", "ops.json"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.py").write_text(MODEL)
        for what, model in (("training step", []), ("forward", ["--inference"])):
            imports, predictions = [], []
            for _ in range(chosen.repeat):
                imports.append(cost([sys.executable, "-c", "import torch"], folder))
                predictions.append(cost([*predict, *model, "model.py:build"], folder))
            print(
                f"{what}: predicted in {min(predictions):.2f} CPU s, importing torch {min(imports):.2f} CPU s, "
                f"over it {min(predictions) - min(imports):.2f} CPU s"
            )


if __name__ == "__main__":
    main()
