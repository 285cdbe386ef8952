"""What the tools cost as a function of the model's size: a training step of multilayer perceptrons, under each tool.

    python benchmarks/numerics/size_cost.py [--target NAME] [--pairs N]

A tool has a part that is fixed for each call of an operator, and a part that grows with its numbers. The smaller the
model, the more the fixed part counts. On the simulated card, with one thread; it says nothing about any card.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch import nn

from torchferry import rehearsal
from torchferry.numerics import CompareWithCPU, NanInfTracker
from torchferry.numerics.recording import Recorder

WIDTHS = (8, 64, 256, 1024)
_LAYERS, _BATCH, _FIRST = 4, 64, 3


def step_of(width: int, device: str) -> tuple[Callable[[], object], int]:
    """Return a step of training, and how many parameters its model has."""
    layers = [layer for _ in range(_LAYERS) for layer in (nn.Linear(width, width), nn.GELU())]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.rand(_BATCH, width).to(device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step, sum(one.numel() for one in model.parameters())


def measured(step: Callable[[], object], after: Callable[[], object], count: int) -> float:
    """Return the median of the processor's milliseconds of a step, without the first ones."""
    times = []
    for number in range(_FIRST + count):
        begun = time.process_time()
        step()
        after()
        if number >= _FIRST:
            times.append((time.process_time() - begun) * 1000)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = "cpu" if options.target == "cpu" else rehearsal.enable(options.target).backend.DEVICE_TYPE
    print("| parameters | a step | nan | nan, operator | compare | compare, every | record |\n" + "|---" * 7 + "|")
    for width in WIDTHS:
        step, parameters = step_of(width, device)
        plain = measured(step, lambda: None, options.pairs)
        cells = []
        with tempfile.TemporaryDirectory() as folder:
            tools: list[Any] = [
                NanInfTracker(level="watch"),
                NanInfTracker(level="operator"),
                CompareWithCPU(quiet=True),
                CompareWithCPU(quiet=True, every=True),
                Recorder(Path(folder) / "record", first=10**9),
            ]
            for tool in tools:
                with tool:
                    end = (lambda: None) if isinstance(tool, NanInfTracker) else tool.step
                    cells.append(f"{measured(step, end, options.pairs) / plain:.2f}")
        print(f"| {parameters:,} | {plain:.2f} ms | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
