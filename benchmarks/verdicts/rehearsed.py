"""Whether the verdict from the code is what a run on the simulated card shows, for programs that need no real data.

    VERDICTS_REPOS=DIR python benchmarks/verdicts/rehearsed.py [--target npu|musa] [NAME ...]

`DIR` is that of `run.py`. For each program of `programs.py` that is there, data of the right form are generated, and
`torchferry scan --rehearse` runs it for a step or two. It runs with the Python that runs this file, which needs torch
and the few packages that the programs import; a program whose package is missing is skipped and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.verdicts.checkout import AbsentError, materialise, repository_options
from benchmarks.verdicts.labels import TARGETS, repositories
from benchmarks.verdicts.programs import PROGRAMS, Rehearsed

ROW = "{:<44} {:<8} {:<12} {:<12} {:<12} {}"
SECONDS = 900


def run(program: Rehearsed, tree: Path, target: str) -> dict[str, Any]:
    """Generate the data of a program, run it, and return what the report has of it.

    Raises:
        ValueError: the data cannot be made, or there is no report.
    """
    where = tree / program.folder
    made = subprocess.run(
        [sys.executable, "-c", program.data], cwd=where, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(where)},
    )  # fmt: skip
    if made.returncode:
        raise ValueError(f"no data: {_last(made.stderr)}")
    command = [sys.executable, "-m", "torchferry", "scan", os.path.relpath(tree, where), "--target", target]
    command += ["--lang", "en", "--isolated", "--exit-zero", "--output-format", "json"]
    command += ["--rehearse", program.command, "--rehearse-seconds", str(SECONDS)]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(_last(done.stderr))
    programs = json.loads(done.stdout)["programs"]
    found: dict[str, Any] = next(entry for entry in programs if entry["settled"] is not None)
    return found


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:300]


def main() -> None:
    """Run all programs that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, action="append", help="npu and musa without it")
    repository_options(parser)
    chosen = parser.parse_args()
    if not chosen.repos:
        print("skipped: VERDICTS_REPOS names no folder with repositories")
        return
    labels = {
        (repository.name, program.path): program for repository in repositories() for program in repository.programs
    }
    commits = {repository.name: repository.commit for repository in repositories()}
    counts: Counter[str] = Counter()
    print(ROW.format("program", "target", "label", "code", "run", ""))
    for program in PROGRAMS:
        if chosen.names and not any(name in program.repository for name in chosen.names):
            continue
        for target in chosen.target or TARGETS:
            title = f"{program.repository.partition('/')[2]} {program.path}"
            label = labels[program.repository, program.path].verdicts[target]
            with tempfile.TemporaryDirectory() as place:
                try:
                    name = program.repository
                    tree = materialise(Path(chosen.repos), name, commits[name], Path(place) / "tree")
                    found = run(program, tree, target)
                except (AbsentError, ValueError, StopIteration) as reason:
                    counts["skipped"] += 1
                    print(ROW.format(title, target, label, "", "skipped", reason), flush=True)
                    continue
            settled = found["settled"]
            word = "disagrees" if settled["fault"] else "agrees" if settled["decides"] else "nothing"
            counts[word] += 1
            told = settled["fault"] or settled["message"]
            said = settled["static"]["verdict"].replace(" ", "_")
            print(ROW.format(title, target, label, said, word, told), flush=True)
    print(", ".join(f"{word} {counts[word]}" for word in ("agrees", "disagrees", "nothing", "skipped")))


if __name__ == "__main__":
    main()
