"""What judging the programs costs beside the scan: processor seconds and seconds by the clock, all processes together.

    python -m benchmarks.verdicts.speed TREE... [--target npu] [--jobs 2] [--runs 3]

Each tree is scanned in a process of its own, once for each run. Prints the medians of the scan without programs, of
the judging after it, and what share of the scan the judging is: in processor time (user and system) and by the clock.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.programs.judging import judge
from torchferry.programs.noting import JUDGED_AFTERWARDS
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

ROW = "{:<24} {:>9} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}"


def _spent() -> tuple[float, float]:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages), time.perf_counter()


def measured(tree: Path, target: str, jobs: int) -> dict[str, float]:
    """Scan a tree and judge its programs, in this process."""
    gc.disable()  # as the command line has it
    choice = registry.choose(target)
    chosen = Target(choice.backend, choice.version)
    begun = _spent()
    request = Request(tree, list_files(tree), chosen, rules(), account=True, jobs=jobs, afterwards=JUDGED_AFTERWARDS)
    analysis = analyse(request)
    scanned = _spent()
    programs = judge(analysis, chosen)
    done = _spent()
    return {
        "programs": len(programs),
        "scan": scanned[0] - begun[0],
        "judging": done[0] - scanned[0],
        "scan by the clock": scanned[1] - begun[1],
        "judging by the clock": done[1] - scanned[1],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--target", default="npu")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.once:
        print(json.dumps(measured(chosen.trees[0], chosen.target, chosen.jobs)))
        return
    print(ROW.format("", "programs", "scan, s", "judging, s", "share", "clock, s", "judging, s", "share"))
    command = [sys.executable, "-m", "benchmarks.verdicts.speed", "--once", "--target", chosen.target]
    for tree in chosen.trees:
        runs = []
        for _ in range(chosen.runs):
            done = subprocess.run(
                [*command, "--jobs", str(chosen.jobs), str(tree)], capture_output=True, text=True, check=True
            )
            runs.append(json.loads(done.stdout))
        of = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        figures: list[str] = []
        for suffix in ("", " by the clock"):
            scan, judging = of[f"scan{suffix}"], of[f"judging{suffix}"]
            figures += [f"{scan:.2f}", f"{judging:.2f}", f"{judging / scan:.0%}"]
        print(ROW.format(tree.name, int(of["programs"]), *figures), flush=True)


if __name__ == "__main__":
    main()
