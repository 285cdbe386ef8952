"""What judging the programs costs beside the scan: processor seconds and seconds by the clock, all processes together.

    python -m benchmarks.verdicts.speed TREE... [--target npu] [--jobs 2] [--runs 3] [--instructions]

Each tree is scanned in processes of their own, once without programs and once with them, for each run. Judging takes
notes while files are examined, so that its cost is the difference of the two. Prints the medians, and what share of the
scan without programs the difference is: in processor time (user and system) and by the clock. With `--instructions` the
instructions of user code are counted by `perf stat` in place of processor time, the start of Python included: other
work on the machine changes them little.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.programs.verdicts.file_facts import FACTS_FOR_JUDGING
from torchferry.programs.verdicts.judging import judge
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

ROW = "{:<24} {:>9} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}"


def _spent() -> tuple[float, float]:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages), time.perf_counter()


def measured(tree: Path, target: str, jobs: int, *, judging: bool) -> dict[str, float]:
    """Scan a tree, and judge its programs where that is asked, in this process."""
    gc.disable()  # as the command line has it
    choice = registry.choose(target)
    chosen = Target(choice.backend, choice.version)
    begun = _spent()
    afterwards = FACTS_FOR_JUDGING if judging else None
    request = Request(tree, list_files(tree), chosen, rules(), account=True, jobs=jobs, afterwards=afterwards)
    analysis = analyse(request)
    programs = judge(analysis, chosen, jobs=jobs) if judging else ()
    done = _spent()
    return {"programs": len(programs), "processor": done[0] - begun[0], "clock": done[1] - begun[1]}


def _run(command: list[str], *, instructions: bool) -> dict[str, float]:
    with tempfile.NamedTemporaryFile("r") as counted:
        counting = ["perf", "stat", "-x,", "-e", "instructions:u", "-o", counted.name] if instructions else []
        done = subprocess.run([*counting, *command], capture_output=True, text=True, check=True)
        figures: dict[str, float] = json.loads(done.stdout)
        if instructions:
            line = next(line for line in counted if "instructions" in line)
            figures["processor"] = float(line.partition(",")[0]) / 1e9
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--target", default="npu")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--instructions", action="store_true", help="count 10^9 instructions, by `perf stat`")
    parser.add_argument("--once", choices=("scan", "judging"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.once:
        print(json.dumps(measured(chosen.trees[0], chosen.target, chosen.jobs, judging=chosen.once == "judging")))
        return
    unit = "10^9" if chosen.instructions else "s"
    print(ROW.format("", "programs", f"scan, {unit}", f"judging, {unit}", "share", "clock, s", "judging, s", "share"))
    command = [sys.executable, "-m", "benchmarks.verdicts.speed", "--target", chosen.target, "--jobs", str(chosen.jobs)]
    for tree in chosen.trees:
        medians: dict[str, dict[str, float]] = {}
        for what in ("scan", "judging"):
            asked = [*command, "--once", what, str(tree)]
            runs = [_run(asked, instructions=chosen.instructions) for _ in range(chosen.runs)]
            medians[what] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        figures: list[str] = []
        for kind in ("processor", "clock"):
            scan = medians["scan"][kind]
            judging = medians["judging"][kind] - scan
            figures += [f"{scan:.2f}", f"{judging:.2f}", f"{judging / scan:.0%}"]
        print(ROW.format(tree.name, int(medians["judging"]["programs"]), *figures), flush=True)


if __name__ == "__main__":
    main()
