"""What it costs to watch for NaN and infinities: a training step with NanInfTracker over the same step without it.

    python benchmarks/numerics/nan_speed.py [--target NAME] [--pairs N] [--peer FILE]

On the simulated card (or on the CPU, with `--target cpu`), in one process and one run, with one thread. FILE is
torch_musa's `torch_musa/utils/compare_tool.py` (github.com/MooreThreads/torch_musa); its tracker prints to nowhere.
msprobe's statistics of level L1, in which its users look for NaN afterwards, are measured where msprobe is installed.
The memory of a thousand tracked steps of a small model is measured too. It says nothing about any card.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch import nn

from benchmarks.numerics.workload import gpt_step, msprobe, paired, peer_module, under_peer
from torchferry import rehearsal
from torchferry.numerics import NanInfTracker
from torchferry.numerics.framework.attribution import ModulePaths


def tracked(step: Callable[[], object], level: Any) -> Callable[[], object]:
    """Return the step under a tracker that stays, switched off between the pairs."""
    tracker = NanInfTracker(level=level)

    def run() -> None:
        with tracker:
            step()

    return run


def memory_of(steps: int) -> tuple[int, int]:
    """Return the greatest memory of the process in KiB before and after so many tracked steps."""
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        optimizer.zero_grad()
        model(torch.rand(16, 32)).pow(2).mean().backward()
        optimizer.step()

    with NanInfTracker(level="operator"):
        for _ in range(100):
            train()
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(steps):
            train()
    return before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def naming_at(depth: int) -> float:
    """Return the microseconds that naming adds to each module call at a depth."""

    class Nested(nn.Module):
        def __init__(self, inside: nn.Module | None) -> None:
            super().__init__()
            self.inside = inside

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if self.inside is None else self.inside(x)

    module: nn.Module = Nested(None)
    for _ in range(depth - 1):
        module = Nested(module)
    x, paths, times = torch.zeros(1), ModulePaths(), []
    for named in (False, True):
        if named:
            paths.start()
        module(x)
        begun = time.perf_counter()
        for _ in range(200):
            module(x)
        times.append((time.perf_counter() - begun) / 200 / depth * 1e6)
    paths.stop()
    return times[1] - times[0]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--peer", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = "cpu"
    if options.target != "cpu":
        device = rehearsal.enable(options.target).backend.DEVICE_TYPE
    step = gpt_step(device)
    print(f"a step of a GPT with 5.3 million parameters on {device}, with the tool over without it (quartiles)")
    ways = {"watch, always on": tracked(step, "watch"), "operator": tracked(step, "operator")}
    if options.peer is not None:
        ways["torch_musa's NanInfTracker"] = under_peer(step, peer_module(options.peer).NanInfTracker)
    few = max(3, options.pairs // 3)
    for name, way in ways.items():
        print(f"{name:28s} {paired(step, way, few if 'musa' in name else options.pairs)}", flush=True)
    if importlib.util.find_spec("msprobe") is None:
        print("msprobe: skipped, it is not installed (pip install mindstudio-probe)")
    else:
        with tempfile.TemporaryDirectory() as folder:
            ratio = paired(step, msprobe(step, Path(folder) / "dump"), few)
        print(f"{'msprobe, statistics, L1':28s} {ratio}", flush=True)
    before, after = memory_of(1000)
    print(f"memory of 1000 tracked steps: {before} KiB before, {after} KiB after")
    sys.setrecursionlimit(10_000)
    costs = ", ".join(f"{depth} deep {naming_at(depth):.1f}" for depth in (4, 16, 64, 256))
    print(f"microseconds to name a module, a call: {costs}")


if __name__ == "__main__":
    main()
