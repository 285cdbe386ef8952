"""What it costs a program to be recorded by `torchferry profile`, beside torch.profiler in the program itself.

    python -m benchmarks.profiling.capture [--target npu] [--runs 5]

The same program trains a small GPT, with the same schedule of the profiler: alone, with `torch.profiler` written into
it, and unchanged under `torchferry profile`, in turn. What is compared is the processor time of its steps and of
writing the trace, as the program counts it itself, the least of the runs. `--no-modules` records what torch.profiler
records; with modules, which is the default, each forward of a module is an event more.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import cost

STEPS, ACTIVE = 24, 10

PROGRAM = """
import os, sys, time
import torch
from torch import nn

device, steps, active, direct = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "direct"
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


step()
profiler = None
if direct:
    # torchferry's recorder begins after the first step too
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(skip_first=0, wait=1, warmup=1, active=active, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(os.path.join(os.environ["FOLDER"], "trace.json")),
        record_shapes=True,
    )
    profiler.start()
begin = time.process_time()
for _ in range(steps):
    step()
    if profiler is not None:
        profiler.step()
print("SECONDS", time.process_time() - begin)
if profiler is not None:
    profiler.stop()
"""


def seconds(words: list[str], folder: Path, mode: str, device: str) -> float:
    """Return the processor seconds that the program counted in a run behind some words of torchferry.

    Raises:
        RuntimeError: the program failed.
    """
    script, output = folder / "train.py", folder / "output"
    script.write_text(PROGRAM, encoding="utf-8")
    program = [sys.executable, str(script), device, str(STEPS), str(ACTIVE), mode]
    command = [sys.executable, "-m", "torchferry", *words, "--", *program] if words else program
    code = cost(command, output, {**os.environ, "FOLDER": str(folder), "OMP_NUM_THREADS": "1"}).code
    text = output.read_text(encoding="utf-8", errors="replace")
    counted = re.search(r"^SECONDS (\S+)", text, re.MULTILINE)
    if code or counted is None:
        raise RuntimeError(f"{' '.join(command)} ended with {code}: {text[-600:]}")
    return float(counted[1])


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="", help="simulated card; without one, this machine's CPU")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    target = arguments.target
    rehearsed = ["rehearse", "-t", target] if target else []
    record = ["profile", *(["-t", target] if target else []), "--active", str(ACTIVE), "--out"]
    device = target or "cpu"
    spent: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        for number in range(arguments.runs):
            folder = Path(name, str(number))
            folder.mkdir()
            for title, words, mode in (
                ("the program alone", rehearsed, "alone"),
                ("torch.profiler in the program", rehearsed, "direct"),
                ("torchferry profile --no-modules", [*record, str(folder / "plain"), "--no-modules"], "alone"),
                ("torchferry profile", [*record, str(folder / "modules")], "alone"),
            ):
                spent.setdefault(title, []).append(seconds(words, folder, mode, device))
    reference = min(spent["torch.profiler in the program"])
    print(f"{STEPS} steps on {device}, {ACTIVE} of them recorded; the least of {arguments.runs} runs, in turn")
    for title, times in spent.items():
        least = min(times)
        print(f"{title:<34} {least:7.3f} CPU s  {100 * (least / reference - 1):+6.1f} %  (to {max(times):.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
