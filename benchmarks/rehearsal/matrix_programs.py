"""Real programs with the torch of this interpreter, migrated and as they are; one line of JSON for each.

    python matrix_programs.py --plugin WHEEL --corpus FOLDER [--target NAME@VERSION] [--ways WAY ...] [NAME ...]

`matrix.py` starts it in the environment of a version. Each program is one of `cases/versions.py`, run as `realworld.py`
runs it: once on the CPU, once as `torchferry migrate` rewrites it, once unchanged under `torchferry run`, and once
unchanged under the vendor's own redirect.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.rehearsal import realworld
from benchmarks.rehearsal.cases.table import Case
from benchmarks.rehearsal.cases.versions import of_versions
from benchmarks.rehearsal.matrix_pages import CARD
from benchmarks.rehearsal.realworld import MIGRATED, TRANSFERRED, UNCHANGED, DifferentError, Outcome

WAYS = {"migrated": MIGRATED, "run": UNCHANGED, "transfer": TRANSFERRED}


def measure(case: Case, corpus: Path | None, plugin: str, folder: Path, ways: Sequence[str]) -> dict[str, str]:
    """Return what came of a program each way: "equal", the greatest difference, or why it does not hold."""
    try:
        realworld.lay_out(case, corpus, folder)
        realworld.on_the_cpu(case, folder)
    except (DifferentError, subprocess.TimeoutExpired, OSError, ValueError) as error:
        return dict.fromkeys(ways, f"on the CPU: {error}"[:160])
    results = {}
    for name in ways:
        way = WAYS[name]
        if way.rewritten and case.unchanged_alone:
            continue
        try:
            results[name] = outcome(realworld.on_the_card(case, folder, way, plugin, name))
        except (DifferentError, subprocess.TimeoutExpired) as error:
            results[name] = str(error).partition("; ")[0][:160]
    return results


def outcome(done: Outcome) -> str:
    """Return an outcome in a word, with what would fail on the card."""
    word = "equal" if done.difference == 0 else f"{done.difference:.0e}"
    return f"{word}{CARD}{', '.join(done.refused)}"[:160] if done.refused else word


def main() -> None:
    """Run the programs that are there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--target", default="npu", help="with the version that the programs are migrated for")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for the copies and outputs, in place of a temporary one")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="run the programs so alone")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="matrix-programs-") as place:
        for each in of_versions():
            if options.names and each.name not in options.names:
                continue
            case = replace(each, target=options.target)
            reason = realworld.absent(case, options.corpus)
            folder = (options.keep or Path(place)) / case.name.replace(" ", "-")
            results = {} if reason else measure(case, options.corpus, options.plugin, folder, options.ways)
            print(json.dumps({"name": case.name, "absent": reason, "results": results}), flush=True)


if __name__ == "__main__":
    main()
