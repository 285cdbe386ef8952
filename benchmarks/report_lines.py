"""How many lines a report takes: the list of every finding beside the report that is acted on.

    python -m benchmarks.report_lines TREE... [--target npu]

For each tree: the lines of `scan -f full` and of `scan`, their ratio, the rows of a terminal of 100 columns before the
decisions begin, and whether the next command is among the first 24 of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from torchferry.core.messages import display_width

SCREEN, COLUMNS = 24, 100
ROW = "{:<28} {:>6} {:>6} {:>7} {:>6}  {}"


def _report(tree: Path, target: str, *options: str) -> list[str]:
    command = [sys.executable, "-m", "torchferry", "scan", ".", "-t", target, "--lang", "en", *options]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{tree}: {done.stderr}")
    return done.stdout.splitlines()


def _rows(line: str) -> int:
    """Return how many rows of a terminal a line takes."""
    return max(1, -(-display_width(line) // COLUMNS))


def main() -> None:
    """Print a row for each tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--target", default="npu")
    arguments = parser.parse_args()
    print(ROW.format("tree", "full", "scan", "ratio", "screen", "next command"))
    for tree in arguments.trees:
        full, report = (_report(tree, arguments.target, *options) for options in (["-f", "full"], []))
        after = next((number for number, line in enumerate(report) if line.startswith("Next:")), len(report))
        end = next((number for number in range(after, len(report)) if not report[number]), len(report))
        screen = sum(map(_rows, report[:end]))
        ratio = len(report) / len(full) if full else 0
        print(
            ROW.format(tree.name, len(full), len(report), f"{ratio:.2f}", screen, "yes" if screen <= SCREEN else "no")
        )


if __name__ == "__main__":
    main()
