"""What the tools cost as a function of the model's size: a training step of multilayer perceptrons, under each tool.

    python benchmarks/numerics/size_cost.py [--target NAME] [--pairs N] [--rounds N] [--widths N ...] [--instructions]
    python benchmarks/numerics/size_cost.py --gpt [--target NAME] [--pairs N] [--rounds N]

A tool has a part that is fixed for each call of an operator, and a part that grows with its numbers. The smaller the
model, the more the fixed part counts. The plain step and the tools take turns; of the rounds the least counts. With
`--instructions`, on Linux, the instructions of the process outside of the kernel are counted and not its time: other
programs on the machine do not change them, and what the kernel does, such as writing files, is not in them. On the
simulated card, with one thread; it says nothing about any card.

With `--gpt`, GPTs of three sizes in place of the perceptrons, and what memory each tool took beyond the plain step, in
a process of its own. The floor is a dispatch mode of torch that only passes the calls on: no tool that sees operators
can cost less.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.numerics.workload import Gpt
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


SIZES: dict[str, dict[str, int]] = {
    "0.9 million": {"words": 1024, "width": 128, "layers": 3, "heads": 4, "length": 64},
    "8.7 million": {"words": 4096, "width": 320, "layers": 5, "heads": 5, "length": 128},
    "27 million": {"words": 8192, "width": 512, "layers": 6, "heads": 8, "length": 128},
}
"""GPTs, by their parameters."""


def gpt_step_of(size: str, device: str) -> Callable[[], object]:
    """Return a step of training of a GPT, on 4 texts, with AdamW."""
    torch.manual_seed(0)
    sizes = SIZES[size]
    model = Gpt(**sizes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    x, y = (torch.randint(0, sizes["words"], (4, sizes["length"])).to(device) for _ in range(2))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()

    return step


class Bare(TorchDispatchMode):
    """Passes each call on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs) if kwargs else func(*args)


def tool_of(name: str, folder: Path) -> Any:
    """Return a tool that was not used yet."""
    tools: dict[str, Callable[[], Any]] = {
        "plain": contextlib.nullcontext,
        "a bare mode": Bare,
        "nan": lambda: NanInfTracker(level="watch"),
        "nan, operator": lambda: NanInfTracker(level="operator"),
        "compare": lambda: CompareWithCPU(quiet=True),
        "compare, every": lambda: CompareWithCPU(quiet=True, every=True),
        "record": lambda: Recorder(folder, first=10**9),
    }
    return tools[name]()


TOOLS = ("plain", "a bare mode", "nan", "nan, operator", "compare", "compare, every", "record")


def milliseconds() -> float:
    """Return the processor's time of this process so far."""
    return time.process_time() * 1000


def instructions() -> Callable[[], float]:
    """Return what tells the millions of instructions of this process from now on, and of threads that begin later."""
    size, inherit, outside_kernel = 112, 1 << 1, 3 << 5
    attributes = struct.pack("<IIQQQQQ", 0, size, 1, 0, 0, 0, inherit | outside_kernel).ljust(size, b"\0")
    library = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]  # of perf_event_open
    counter = library.syscall(number, ctypes.create_string_buffer(attributes, size), 0, -1, -1, 0)
    if counter < 0:
        raise OSError(ctypes.get_errno(), "the kernel lets nobody count instructions")
    return lambda: int(struct.unpack("<Q", os.read(counter, 8))[0]) / 1e6


def measured(step: Callable[[], object], tool: Any, count: int, used: Callable[[], float]) -> float:
    """Return what a step takes under a tool, without the first ones: the median, or the mean for one that works aside.

    The thread of a comparison is waited for, so that all that it does counts.
    """
    with tool:
        after = getattr(tool, "step", lambda: None) if not isinstance(tool, NanInfTracker) else lambda: None
        wait = getattr(tool, "wait", lambda: None)
        for _ in range(_FIRST):
            step()
            after()
        wait()
        times = [used()]
        for _ in range(count):
            step()
            after()
            times.append(used())
        wait()
        if isinstance(tool, CompareWithCPU):
            return (used() - times[0]) / count
    return statistics.median(end - begin for begin, end in itertools.pairwise(times))


def peak(size: str, name: str, target: str) -> float:
    """Return the most memory, in MB, that a process had which trained under a tool."""
    command = [sys.executable, __file__, "--gpt", "--memory", size, name, "--target", target]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def gpts(options: argparse.Namespace, device: str) -> None:
    """Print the table of the GPTs."""
    print(f"| parameters | a plain step | {' | '.join(TOOLS[1:])} |\n" + "|---" * (len(TOOLS) + 1) + "|")
    for size in SIZES:
        step = gpt_step_of(size, device)
        least: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(options.rounds):
                for name in TOOLS:
                    tool = tool_of(name, Path(folder) / f"record-{turn}")
                    cost = measured(step, tool, options.pairs, milliseconds)
                    least[name] = min(cost, least.get(name, cost))
        plain = least["plain"]
        cells = [f"{least[name] / plain:.2f}" for name in TOOLS[1:]]
        print(f"| {size} | {plain:.0f} ms | {' | '.join(cells)} |", flush=True)
        memory = {name: peak(size, name, options.target) for name in TOOLS}
        more = [f"{memory[name] - memory['plain']:.0f} MB" for name in TOOLS[1:]]
        print(f"| memory beyond it | {memory['plain']:.0f} MB | {' | '.join(more)} |", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--gpt", action="store_true")
    parser.add_argument("--memory", nargs=2, metavar=("SIZE", "TOOL"))
    options = parser.parse_args()
    used = instructions() if options.instructions else milliseconds
    torch.set_num_threads(1)
    device = "cpu" if options.target == "cpu" else rehearsal.enable(options.target).backend.DEVICE_TYPE
    if options.memory:
        step = gpt_step_of(options.memory[0], device)
        with tempfile.TemporaryDirectory() as folder:
            measured(step, tool_of(options.memory[1], Path(folder) / "record"), 4, used)
        status = Path("/proc/self/status").read_text()  # what getrusage tells is of the process before, too
        print(float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024)
        return
    if options.gpt:
        gpts(options, device)
        return
    print("| parameters | a step | nan | nan, operator | compare | compare, every | record |\n" + "|---" * 7 + "|")
    for width in options.widths:
        step, parameters = step_of(width, device)
        least: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(options.rounds):
                tools: dict[str, Any] = {
                    "plain": contextlib.nullcontext(),
                    "nan": NanInfTracker(level="watch"),
                    "nan, operator": NanInfTracker(level="operator"),
                    "compare": CompareWithCPU(quiet=True),
                    "compare, every": CompareWithCPU(quiet=True, every=True),
                    "record": Recorder(Path(folder) / f"record-{turn}", first=10**9),
                }
                for name, tool in tools.items():
                    cost = measured(step, tool, options.pairs, used)
                    least[name] = min(cost, least.get(name, cost))
        plain = least.pop("plain")
        cells = " | ".join(f"{cost / plain:.2f}" for cost in least.values())
        unit = "million instructions" if options.instructions else "ms"
        print(f"| {parameters:,} | {plain:.2f} {unit} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
