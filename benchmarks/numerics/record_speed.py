"""What it costs to record a run for `compare diff`: a training step under the recorder over the same step without it.

    python benchmarks/numerics/record_speed.py [--target NAME] [--pairs N]

On the simulated card (or on the CPU, with `--target cpu`), in one process and one run, with one thread; every step is
recorded operator by operator, and each twentieth with its parameters and gradients. Writing is inside of the step.
msprobe's statistics of level L1 are measured beside it where msprobe is installed. It says nothing about any card.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch

from benchmarks.numerics.workload import gpt_step, msprobe, paired
from torchferry import rehearsal
from torchferry.numerics.recording import Recorder

COST, SIZE = 1.25, 50.0
"""What a recorded step may cost, and how many kilobytes it may take."""


def under(recorder: Recorder, step: Callable[[], object]) -> Callable[[], object]:
    """Return the step under a recorder that is left between the pairs."""

    def run() -> None:
        recorder.start()
        step()
        recorder.step()
        recorder.stop()

    return run


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--pairs", type=int, default=31)
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = "cpu" if options.target == "cpu" else rehearsal.enable(options.target).backend.DEVICE_TYPE
    step = gpt_step(device)
    print(f"a step of a GPT with 5.3 million parameters on {device}, recorded over plain (quartiles)", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorder = Recorder(folder / "record", first=10**9)
        ratio = paired(step, under(recorder, step), options.pairs)
        found = recorder.options.folder
        kilobytes = size(Path(found)) / 1000 / (options.pairs + 2)
        print(f"{f'recorded (limits {COST}, {SIZE:.0f} kB)':32s} {ratio}   {kilobytes:6.1f} kB a step", flush=True)
        sampled = Recorder(folder / "sampled", first=2, every=10)
        print(
            f"{'each tenth step (as by default)':32s} {paired(step, under(sampled, step), options.pairs)}", flush=True
        )
        if importlib.util.find_spec("msprobe") is None:
            print("msprobe: skipped, it is not installed (pip install mindstudio-probe)")
            return
        few = max(6, options.pairs // 3)
        ratio = paired(step, msprobe(step, folder / "msprobe"), few)
        print(f"{'msprobe, statistics, L1':32s} {ratio}   {size(folder / 'msprobe') / 1000 / (few + 2):6.1f} kB a step")


if __name__ == "__main__":
    main()
