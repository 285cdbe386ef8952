"""Trace a small model on a device and save it for C++, with what it computes for one input.

    python export.py DEVICE FOLDER

The input is `linspace(-1, 1)`, which infer.cpp makes by itself.
"""

import sys
from pathlib import Path

import torch
from torch import nn

SHAPE = (1, 3, 16, 16)


def model() -> nn.Module:
    """Return an image classifier with weights that are the same everywhere."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10))


def main() -> None:
    """Save `model.pt` and `expected.txt`."""
    device, folder = sys.argv[1], Path(sys.argv[2])
    values = torch.linspace(-1, 1, 3 * 16 * 16).reshape(SHAPE).to(device)
    with torch.no_grad():
        traced = torch.jit.trace(model().eval().to(device), values)
        result = traced(values).cpu().flatten()
    folder.mkdir(parents=True, exist_ok=True)
    traced.save(str(folder / "model.pt"))
    (folder / "expected.txt").write_text("".join(f"{value:.9g}\n" for value in result.tolist()))


if __name__ == "__main__":
    main()
