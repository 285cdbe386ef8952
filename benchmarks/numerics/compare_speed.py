"""What it costs to compare with the CPU: a training step under CompareWithCPU over the same step without it.

    python benchmarks/numerics/compare_speed.py [--target NAME] [--pairs N] [--peer FILE]

On the simulated card (or on the CPU, with `--target cpu`), in one process and one run, with one thread. The thread that
compares is waited for inside of the measured step, so that all that it does counts. FILE is torch_musa's
`torch_musa/utils/compare_tool.py` (github.com/MooreThreads/torch_musa); it prints to nowhere. It says nothing about
any card.
"""

from __future__ import annotations

import argparse
import functools
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch

from benchmarks.numerics.workload import gpt_step, paired, peer_module, under_peer
from torchferry import rehearsal
from torchferry.numerics import CompareWithCPU
from torchferry.numerics.compare.sampling import YOUNG

STEADY, EVERY = 1.10, 5.0
"""What a step may cost by the sample, and with every call compared."""


def under(tool: CompareWithCPU, step: Callable[[], object]) -> Callable[[], object]:
    """Return the step under a tool that is left between the pairs."""

    def run() -> None:
        with tool:
            step()
            tool.step()
            tool.wait()

    return run


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
    for _ in range(2):
        step()
    begun = time.perf_counter()
    step()
    plain = time.perf_counter() - begun
    tool = CompareWithCPU(quiet=True)
    begun = time.perf_counter()
    under(tool, step)()
    print(f"{'the first step, once':32s} {(time.perf_counter() - begun) / plain:7.1f}")
    young = paired(step, under(tool, step), YOUNG - 3)
    print(f"{f'the next {YOUNG - 1} steps, each':32s} {young}", flush=True)
    print(
        f"{'steady state (limit ' + format(STEADY, '.2f') + ')':32s} {paired(step, under(tool, step), options.pairs)}"
    )
    few = max(4, options.pairs // 3)
    every = CompareWithCPU(quiet=True, every=True)
    print(
        f"{'every call (limit ' + format(EVERY, '.1f') + ')':32s} {paired(step, under(every, step), few)}", flush=True
    )
    if options.peer is not None:
        peer = functools.partial(peer_module(options.peer).CompareWithCPU, verbose=False)
        print(f"{'torch_musa CompareWithCPU':32s} {paired(step, under_peer(step, peer), few)}")
    for name, one in (("steady", tool), ("every", every)):
        found = one.document("en")
        print(f"{name}: {found['counts']}, {found['not_sampled']} not in the sample")
    gc.collect()


if __name__ == "__main__":
    main()
