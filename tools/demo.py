"""The main job on the bundled example: scan, migrate a copy, show the patch, report what is left, rehearse it, undo."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.version import Version

from torchferry.backends.base import Backend
from torchferry.backends.registry import choose
from torchferry.core.errors import TorchferryError
from torchferry.rehearsal import build
from torchferry.rehearsal.driver.description import load_driver

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "cuda-training"
OUT = ROOT / ".demo"


def run(*arguments: str, folder: Path = ROOT) -> None:
    """Show a command and run it; exit codes 0 and 1 (something is left to do) are both what a demo may show."""
    print(f"\n$ torchferry {' '.join(arguments)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "torchferry", *arguments], cwd=folder, check=False).returncode
    if status not in (0, 1):
        sys.exit(status)


def rehearse(project: Path, target: str) -> None:
    """Run the migrated program on a simulated card; a machine without a compiler is told so and is no failure."""
    try:
        build.compiler()
    except TorchferryError as error:
        print(f"\nNot rehearsed: {error.message.render()}", error.advice and error.advice.render(), sep="\n  ")
        return
    backend = choose(target).backend
    command = ("python", "train.py", "--device", backend.DEVICE_TYPE, "--steps", "5")
    wheel, reason = own_plugin(backend)
    if wheel is None:
        print(f"\nRehearsed with the simulated {backend.PLUGIN}: {reason}.", flush=True)
    plugin = () if wheel is None else ("--plugin", os.path.relpath(wheel, project))
    print(f"\n$ cd {project.relative_to(ROOT)}", end="")
    run("rehearse", "--target", target, *plugin, "--", *command, folder=project)


def own_plugin(backend: type[Backend]) -> tuple[Path | None, str]:
    """Return the wheel of the vendor's own plugin that the set-up fetched, or else why it is not rehearsed with."""
    if load_driver(backend) is None:
        return None, "nobody has described the driver that the vendor's own needs"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = f"cp{version.replace('.', '')}"
    pattern = f"{backend.PLUGIN}-*-{python}-{python}-*{platform.machine()}.whl"
    wheels = sorted((Path(sys.prefix) / "wheels").glob(pattern), key=lambda wheel: Version(wheel.name.split("-")[1]))
    if wheels:
        return wheels[-1], ""
    return None, f"no wheel of the vendor's own for Python {version} was fetched; `make wheels` fetches it"


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
    rehearse(project, target)
    run("undo", place)
    print("\nThe report as a page, with the code and the changes: .demo/report.html")
    print("Nothing here needed a card. A rehearsal shows that code is right for the plugin's API, never that the card")
    print("computes the right numbers; docs/en/rehearsing.md says what it proves.")


if __name__ == "__main__":
    main()
