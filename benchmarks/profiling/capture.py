"""What it costs a program to be recorded by `torchferry profile`, beside torch.profiler in the program itself.

    python -m benchmarks.profiling.capture [--target npu] [--rounds 60]

One process trains a small GPT: alone, with `torch.profiler` as a program would write it, and with what `torchferry
profile` puts into a process, without and with marks of modules. All record the same steps and write a trace. In each
round every mode has one turn, in an order drawn anew, with an empty garbage collector. What is compared is the
processor time of a turn, its trace included, with that of `torch.profiler` in the same round: the median of the rounds
and its 95 % interval, from the order of the values. `torch.profiler` runs twice in a round: what the second costs more
than the first is the noise. With modules, the default of the command, each forward of a module is an event more.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import cost

PROGRAM = """
import gc, json, os, random, shutil, sys, time
import torch
from torch import nn
from torchferry.profiling.recorder import StepRecorder

device, rounds, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ACTIVE = 4
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (part.view(rows, length, 4, width // 4).transpose(1, 2) for part in parts)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.second(x))


model = nn.Sequential(nn.Embedding(256, 128), *(Block(128) for _ in range(6)), nn.Linear(128, 256)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
tokens = torch.randint(0, 256, (8, 65)).to(device)


def step():
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def alone(number):
    for _ in range(ACTIVE + 3):
        step()


def direct(number):
    # torchferry's recorder begins after the first step too
    step()
    path = os.path.join(folder, f"direct{number}.json")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(skip_first=0, wait=1, warmup=1, active=ACTIVE, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),
        record_shapes=True,
    ) as profiler:
        for _ in range(ACTIVE + 2):
            step()
            profiler.step()


def again(number):
    direct(number)


def recorded(number, modules=False):
    options = {"skip_first": 1, "wait": 1, "warmup": 1, "active": ACTIVE, "repeat": 1, "modules": modules}
    options |= {"shapes": True, "memory": False, "stack": False, "flops": False}
    recorder = StepRecorder({**options, "folder": folder, "rehearsal": "" if device == "cpu" else device})
    recorder.start()
    for _ in range(ACTIVE + 3):
        step()
    assert not recorder.finish()["problem"]


def with_modules(number):
    recorded(number, modules=True)


spent = {}
modes = [alone, direct, again, recorded, with_modules]
order = random.Random(0)
for number in range(rounds + 1):
    for mode in order.sample(modes, len(modes)):
        gc.collect()
        begin = time.process_time()
        mode(number)
        if number:  # the first round warms up
            spent.setdefault(mode.__name__, []).append(time.process_time() - begin)
    shutil.rmtree(folder)
    os.mkdir(folder)
print("SPENT " + json.dumps(spent))
"""

TITLES = {
    "alone": "the program alone",
    "direct": "torch.profiler in the program",
    "again": "the same again: the noise",
    "recorded": "torchferry profile --no-modules",
    "with_modules": "torchferry profile",
}


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """Return the median of independent values and a 95 % interval of it: two values in their order (sign test)."""
    ordered = sorted(values)
    half = 0.98 * math.sqrt(len(ordered))  # 1.96 standard deviations of a binomial count with p = 1/2
    middle = len(ordered) / 2
    low, high = max(math.floor(middle - half), 0), min(math.ceil(middle + half), len(ordered) - 1)
    return statistics.median(ordered), ordered[low], ordered[high]


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="", help="simulated card; without one, this machine's CPU")
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        script, output, traces = Path(name, "train.py"), Path(name, "output"), Path(name, "traces")
        traces.mkdir()
        script.write_text(PROGRAM, encoding="utf-8")
        command = [sys.executable, str(script), arguments.target or "cpu", str(arguments.rounds), str(traces)]
        if arguments.target:
            command = [sys.executable, "-m", "torchferry", "rehearse", "-t", arguments.target, "--", *command]
        code = cost(command, output, {**os.environ, "OMP_NUM_THREADS": "1"}).code
        text = output.read_text(encoding="utf-8", errors="replace")
    line = next((line for line in text.splitlines() if line.startswith("SPENT ")), "")
    if code or not line:
        raise RuntimeError(f"{' '.join(command)} ended with {code}: {text[-600:]}")
    spent: dict[str, list[float]] = json.loads(line.partition(" ")[2])
    print(f"7 steps on {arguments.target or 'cpu'}, 4 of them recorded; medians of {arguments.rounds} rounds")
    for mode, times in spent.items():
        ratios = [100 * (own / other - 1) for own, other in zip(times, spent["direct"], strict=True)]
        median, low, high = median_interval(ratios)
        said = "" if mode == "direct" else f"{median:+6.1f} %, 95 % between {low:+.1f} and {high:+.1f} %"
        print(f"{TITLES[mode]:<34} {statistics.median(times):7.3f} CPU s  {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
