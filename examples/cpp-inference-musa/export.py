"""Trace a small classifier on the card and save it for C++, with what it computes for one input.

The input is `linspace(-1, 1)`, which infer.cpp makes by itself.
"""

from pathlib import Path

import torch
from torch import nn


def main() -> None:
    """Save `model/model.pt` and `model/expected.txt`."""
    device = torch.device("cuda")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10))
    values = torch.linspace(-1, 1, 3 * 16 * 16).reshape(1, 3, 16, 16).to(device)
    with torch.no_grad():
        traced = torch.jit.trace(model.eval().to(device), values)
        result = traced(values).cpu().flatten()
    folder = Path("model")
    folder.mkdir(exist_ok=True)
    traced.save(str(folder / "model.pt"))
    (folder / "expected.txt").write_text("".join(f"{value:.9g}\n" for value in result.tolist()))
    print(f"saved a model with {len(result)} results on {values.device}")


if __name__ == "__main__":
    main()
