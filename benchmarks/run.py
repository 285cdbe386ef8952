"""Every speed figure of the README, each against its peer in the same run.

    TORCHFERRY_REPOSITORIES=DIR python benchmarks/run.py [--musa-python PYTHON]

`DIR` holds checkouts of ultralytics/yolov5 (v7.0) and MooreThreads/torch_musa; `PYTHON` is an interpreter with libcst
and tqdm, for the peer.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torchferry
from benchmarks.measure import in_turn, seconds, successful_cost
from benchmarks.repositories import repository
from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules.engine import Engine
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.outline import outline
from torchferry.source.tree import list_files

TORCHFERRY = [sys.executable, "-m", "torchferry"]
LINES = 1_000_000


def start_up(runs: int) -> None:
    """`torchferry --help` beside an empty Python."""
    empty, ours = in_turn(
        runs,
        lambda: seconds([sys.executable, "-c", "pass"]),
        lambda: seconds([*TORCHFERRY, "--help"]),
    )
    print(f"--help: {ours * 1e3:.0f} ms, python -c pass {empty * 1e3:.0f} ms, difference {(ours - empty) * 1e3:.0f} ms")


def migrate_yolov5(runs: int, musa_python: str) -> None:
    """A migration of YOLOv5 v7.0 beside musa_converter."""
    yolo, musa = repository("ultralytics", "yolov5"), repository("MooreThreads", "torch_musa")
    if yolo is None:
        print("migrate: skipped, no checkout of ultralytics/yolov5")
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "yolov5"

        def fresh() -> None:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(yolo, copy, ignore=shutil.ignore_patterns(".git"))

        def ours() -> float:
            return seconds([*TORCHFERRY, "migrate", str(copy), "--target", "musa"], fresh)

        if musa is None:
            print(f"migrate yolov5: {in_turn(runs, ours)[0]:.3f} s; peer skipped, no checkout of torch_musa")
            return
        converter = str(musa / "torch_musa" / "utils" / "musa_converter.py")

        def peer() -> float:
            return seconds([musa_python, converter, "-r", str(copy), "-l", str(copy / "train.py")], fresh)

        mine, theirs = in_turn(runs, ours, peer)
        print(f"migrate yolov5: {mine:.3f} s, musa_converter {theirs:.3f} s, ratio {theirs / mine:.1f}")


def scan_million(folder: Path) -> None:
    """A scan of a million lines in one process beside `ast.parse` of the files that hold a trigger word."""
    tree = folder / "million"
    lines = _million(tree)
    if not lines:
        print("scan of a million lines: skipped, no Python code to fill the tree with")
        return
    target = Target(registry.load("npu"))
    listing = list_files(tree)
    engine = Engine(tree, target, rules())
    triggered = []
    for entry in listing.entries:
        data = (tree / entry.path).read_bytes()
        if entry.kind is Kind.PYTHON and engine.interested(entry.kind, data, outline(entry.path, data)):
            triggered.append(data)
    begin = time.perf_counter()
    for data in triggered:
        ast.parse(data)
    parsing = time.perf_counter() - begin
    times = {}
    for jobs in (1, 2):
        begin = time.perf_counter()
        subprocess.run(
            [*TORCHFERRY, "scan", str(tree), "--target", "npu", "-j", str(jobs), "-f", "json", "-o", os.devnull],
            check=False,
        )
        times[jobs] = time.perf_counter() - begin
    print(
        f"scan of {lines} lines in {len(listing.entries)} files: {times[1]:.1f} s in one process, "
        f"{times[2]:.1f} s in two; ast.parse of the {len(triggered)} files with a trigger word {parsing:.1f} s, "
        f"ratio {times[1] / parsing:.2f}"
    )


def memory(folder: Path) -> None:
    """Peak memory of a scan's process for one copy and for eight copies of the same files, beside an empty Python's."""
    empty = successful_cost([sys.executable, "-c", "pass"]).mebibytes
    peaks = []
    for copies in (1, 8):
        tree = folder / f"memory{copies}"
        for number in range(copies):
            if not _million(tree / str(number), 40_000):
                print("peak memory: skipped, no Python code to fill the tree with")
                return
        command = [*TORCHFERRY, "scan", str(tree), "--target", "npu", "-j", "1", "-f", "json"]
        peaks.append((len(list_files(tree).entries), successful_cost(command).mebibytes))
    (few, small), (many, large) = peaks
    print(
        f"peak memory of the process: {small:.0f} MiB for {few} files, {large:.0f} MiB for {many} files, "
        f"{empty:.0f} MiB for an empty Python"
    )


def _million(tree: Path, wanted: int = LINES) -> int:
    """Fill a folder with copies of the Python files of the checkouts until it has `wanted` lines."""
    sources = [
        path
        for folder in [Path(os.environ.get("TORCHFERRY_REPOSITORIES", "") or os.devnull)]
        if folder.is_dir()
        for path in sorted(folder.glob("*/**/*.py"))
    ]
    lines = number = 0
    while sources and lines < wanted:
        for path in sources:
            data = path.read_bytes()
            target = tree / str(number // 500) / f"{number}_{path.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            lines += data.count(b"\n")
            number += 1
            if lines >= wanted:
                break
    return lines


def main() -> None:
    """Run all benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--musa-python", default=sys.executable, help="interpreter with libcst and tqdm")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} processors")
    compileall.compile_dir(torchferry.__path__[0], quiet=1)  # as an installed package is; a checkout may not be
    start_up(chosen.runs * 3)
    migrate_yolov5(chosen.runs, chosen.musa_python)
    with tempfile.TemporaryDirectory() as folder:
        scan_million(Path(folder))
        memory(Path(folder))


if __name__ == "__main__":
    main()
