"""What it costs a program to be recorded by `torchferry profile`, beside torch.profiler in the program itself.

    python -m benchmarks.profiling.capture [--target npu] [--rounds 8]

One process trains a small GPT, a round of steps after the other: alone, with `torch.profiler` as a program would write
it, and with what `torchferry profile` puts into a process, without and with marks of modules. All record the same steps
and write a trace. What is compared is the processor time of a round, its trace included, the least of the rounds, which
come in turn. With modules, which is the default of the command, each forward of a module is an event more in the trace.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import cost

PROGRAM = """
import json, os, sys, time
import torch
from torch import nn
from torchferry.profiling.recorder import StepRecorder

device, rounds, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ACTIVE = 10
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
for number in range(rounds + 1):
    for mode in (alone, direct, recorded, with_modules):
        begin = time.process_time()
        mode(number)
        if number:  # the first round warms up
            spent.setdefault(mode.__name__, []).append(time.process_time() - begin)
print("SPENT " + json.dumps(spent))
"""

TITLES = {
    "alone": "the program alone",
    "direct": "torch.profiler in the program",
    "recorded": "torchferry profile --no-modules",
    "with_modules": "torchferry profile",
}


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="", help="simulated card; without one, this machine's CPU")
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        script, output = Path(name, "train.py"), Path(name, "output")
        script.write_text(PROGRAM, encoding="utf-8")
        command = [sys.executable, str(script), arguments.target or "cpu", str(arguments.rounds), name]
        if arguments.target:
            command = [sys.executable, "-m", "torchferry", "rehearse", "-t", arguments.target, "--", *command]
        code = cost(command, output, {**os.environ, "OMP_NUM_THREADS": "1"}).code
        text = output.read_text(encoding="utf-8", errors="replace")
    line = next((line for line in text.splitlines() if line.startswith("SPENT ")), "")
    if code or not line:
        raise RuntimeError(f"{' '.join(command)} ended with {code}: {text[-600:]}")
    spent: dict[str, list[float]] = json.loads(line.partition(" ")[2])
    reference = min(spent["direct"])
    print(f"13 steps on {arguments.target or 'cpu'}, 10 of them recorded; the least of {arguments.rounds} rounds")
    for mode, times in spent.items():
        least = min(times)
        print(f"{TITLES[mode]:<34} {least:7.3f} CPU s  {100 * (least / reference - 1):+6.1f} %  (to {max(times):.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
