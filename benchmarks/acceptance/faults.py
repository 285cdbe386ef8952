"""Does `torchferry accept` see what it has to see? Five programs, each as it is, and with six faults.

    python -m benchmarks.acceptance.faults [--target npu] [--kinds gpt,detector] [--each]

Each program first runs on the CPU, which is the baseline, and is then judged on the simulated card: no gate may be red.
Then it runs with noise in its checkpoint, and once more with the other faults, each of which has a gate of its own;
`--each` plants these one by one. A slower step is judged on this machine's CPU: a rehearsal says nothing of speed.
Exit code 1: the gate of a fault is not red, or a program as it is has a red one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.acceptance.programs import PROGRAM
from torchferry.acceptance import evidence

METRICS = {
    "gpt": ("loss", "±", "", 0.000005),
    "classifier": ("Acc@1", ">=", "share", 0.0005),
    "segmenter": ("mIoU", ">=", "%", 0.05),
    "detector": ("mAP@.5:.95", ">=", "share", 0.001),
    "diffusion": ("", "", "", 0.0),
}
"""The metric that each is judged by, its direction, its unit, and how much worse it may be."""

NOISE = "1 % noise in the checkpoint"
FAULTS = {
    NOISE: ("noise", ""),
    "a leak": ("leak", "memory.growth"),
    "NaN at step 50": ("nan", "stability.run"),
    "a missing log line": ("silent", "logs.throughput"),
    "a command of the README that fails": ("", "documents.command-1"),
}
"""Each with the word that plants it and its gate; that of noise is the program's metric, or its outputs."""

SLOWER = "a slower step"

COMMAND, FAILING = "python -m compileall -q program.py", "python -m absent program.py"
README = f"# program\n\n```bash\n{COMMAND}\n```\n"
"""The command of the README, and one in its place that fails."""

FILE = """
schema = 1
[source]
url = "https://example.org/program"
licence = "MIT"
priority = "official"
[model]
name = "KIND"
variant = "small"
[baseline]
device = "this machine's CPU"
date = 2026-01-31
versions = { torch = "2.13.0" }
log = "baseline.log"
METRIC
[runs.target]
command = COMMAND
time-limit = "10 min"
OUTPUTS
[gates.speed]
metric = "steps/s"
at-least = 0.5
[gates.logs]
lines = { loss = 'loss \\d', throughput = '\\d steps/s' }
[gates.documents]
required = ["README.md"]
commands = ["python -m compileall -q program.py"]
[gates.not-judged]
environment = "the doctor has tests of its own"
errors = "the same program again, for each of them"
"""


def main() -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--kinds", default=",".join(METRICS))
    parser.add_argument("--each", action="store_true", help="one fault at a time")
    arguments = parser.parse_args()
    print("| program | faults | red gates | wrong |\n|---|---|---|---|")
    wrong = 0
    for kind in arguments.kinds.split(","):
        with tempfile.TemporaryDirectory() as name:
            wrong += judged(kind, arguments.target, Path(name), arguments.each)
    return 1 if wrong else 0


def judged(kind: str, target: str, root: Path, each: bool) -> int:
    """Judge one program as it is and with faults; return how many verdicts are not as they have to be."""
    command = [sys.executable, "program.py", kind]
    text = prepared(kind, root, command)
    others = [name for name in FAULTS if name != NOISE]
    wrong = 0
    for faults in [[], [NOISE], *([[name] for name in others] if each else [others])]:
        words = [word for name in faults if (word := FAULTS[name][0])]
        wanted = text.replace("COMMAND", json.dumps([*command, target, *words]))
        readme = README
        if "a command of the README that fails" in faults:
            wanted, readme = wanted.replace(COMMAND, FAILING), readme.replace(COMMAND, FAILING)
        (root / "README.md").write_text(readme, encoding="utf-8")
        gates = {FAULTS[name][1] or own_gate(kind) for name in faults}
        wrong += shown(kind, faults, gates, accept(root, wanted, "--rehearse", "-t", target))
    for faults, words in (([], []), ([SLOWER], ["slow"])):
        wanted = text.replace("COMMAND", json.dumps([*command, "cpu", *words]))
        wrong += shown(
            kind, faults, {"speed"} if faults else set(), accept(root, wanted, "-t", target, "--only", "speed")
        )
    return wrong


def own_gate(kind: str) -> str:
    """Return the gate that noise in the checkpoint has to turn red."""
    return f"numbers.{METRICS[kind][0]}" if METRICS[kind][0] else "outputs.out"


def prepared(kind: str, root: Path, command: list[str]) -> str:
    """Write a project with its baseline; return the accept file."""
    (root / "program.py").write_text(PROGRAM, encoding="utf-8")
    log = subprocess.run([*command, "cpu"], cwd=root, env=environment(), capture_output=True, text=True, check=True)
    (root / "baseline.log").write_text(log.stdout, encoding="utf-8")
    if (root / "out").is_dir():
        shutil.move(root / "out", root / "reference")
    metric, direction, unit, tolerance = METRICS[kind]
    table = ""
    if metric:
        last = log.stdout.splitlines()[-1].split()
        value = last[last.index(metric) + 1 if metric in last else 1].rstrip("%")
        table = f'[[baseline.metrics]]\nname = "{metric}"\nvalue = {value}\ndirection = "{direction}"\n'
        table += f"tolerance = {tolerance}\n" + (f'unit = "{unit}"\n' if unit else "")
    outputs = '[[gates.outputs]]\nkind = "image"\nfolder = "out"\nreference = "reference"\n'
    text = FILE.replace("KIND", kind).replace("METRIC", table)
    return text.replace("OUTPUTS", outputs if kind == "diffusion" else "")


def shown(kind: str, faults: list[str], gates: set[str], red: list[str]) -> int:
    """Print a line; return 1 where a gate of the faults is not red, or there is no fault and one is red."""
    missing = gates - set(red)
    more = set() if faults else set(red)
    said = ", ".join(f"`{each}`" for each in red) or "none"
    print(f"| {kind} | {', '.join(faults) or 'none'} | {said} | {', '.join(missing | more)} |", flush=True)
    return int(bool(missing or more))


def accept(root: Path, text: str, *options: str) -> list[str]:
    """Judge with an accept file; return the red gates."""
    (root / "torchferry.accept.toml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "torchferry", "accept", *options],
        cwd=root,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr[-2000:])
    found = evidence.read(root / "evidence")
    return [gate["gate"] for gate in found["gates"] if gate["status"] == "red"]


def ran(root: Path, *command: str, codes: tuple[int, ...] = (0,)) -> str:
    """Run a command; return what it printed.

    Raises:
        RuntimeError: it ended with another code; with the end of what it said.
    """
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise RuntimeError(
            f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
        )
    return done.stdout + done.stderr


def environment() -> dict[str, str]:
    """Return the environment of all runs."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}


if __name__ == "__main__":
    sys.exit(main())
