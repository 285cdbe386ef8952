"""The main job on the bundled example: scan, migrate a copy, show the patch, prove what is left, write the report."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "cuda-training"
OUT = ROOT / ".demo"


def run(*arguments: str) -> None:
    """Show a command and run it; exit codes 0 and 1 (something is left to do) are both what a demo may show."""
    print(f"\n$ torchferry {' '.join(arguments)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "torchferry", *arguments], cwd=ROOT, check=False).returncode
    if status not in (0, 1):
        sys.exit(status)


def main() -> None:
    """Run the demo for the target that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="npu")
    target = parser.parse_args().target
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    project = OUT / "cuda-training"
    shutil.copytree(EXAMPLE, project)
    place = str(project.relative_to(ROOT))
    run("scan", place, "--target", target)
    run("scan", place, "--target", target, "--output-format", "html", "--output-file", ".demo/report.html")
    run("migrate", place, "--target", target, "--diff")
    run("migrate", place, "--target", target)
    run("scan", place, "--target", target)
    run("undo", place)
    print("\nThe report with side-by-side diffs: .demo/report.html")
    print("Nothing here needed a card; that the migrated program runs on one is not shown by this.")


if __name__ == "__main__":
    main()
