"""How long it takes to look into the packages of an environment: cold and from the cache, in processor seconds.

    python -m benchmarks.installed_speed ENVIRONMENT [--packages 200] [--target npu]

ENVIRONMENT is a virtual environment with many packages. All of its top-level modules are asked about, the largest
distributions first, up to the number of packages; torch itself is never opened.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from torchferry.backends.target import Target
from torchferry.installed.cache import Cache
from torchferry.installed.environment import Environment, environment_of
from torchferry.installed.inspection import inspect
from torchferry.installed.model import Inspected


def modules_of(environment: Environment, count: int) -> list[str]:
    """Return the top-level modules of an environment, those with the most files first."""
    sizes: dict[str, int] = {}
    for folder in environment.folders:
        for name in os.listdir(folder):
            module = name.partition(".")[0]
            if module.isidentifier() and not name.endswith(("-info", ".libs", ".pth")):
                sizes[module] = sum(len(files) for _, _, files in os.walk(folder / name))
    return sorted(sizes, key=lambda module: -sizes[module])[:count]


def timed(environment: Environment, modules: list[str], target: Target, cache: Cache) -> tuple[float, float, int]:
    """Return wall and processor seconds of one look, and how many packages were opened."""
    wall, processor = time.perf_counter(), time.process_time()
    found: dict[str, Inspected] = inspect(environment, modules, target, cache=cache)
    return time.perf_counter() - wall, time.process_time() - processor, len(found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path)
    parser.add_argument("--packages", type=int, default=200)
    parser.add_argument("--target", default="npu")
    arguments = parser.parse_args()
    environment, target = environment_of(arguments.environment), Target.named(arguments.target)
    modules = modules_of(environment, arguments.packages)
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder) / "cache")
        for title in ("cold", "cached", "cached"):
            wall, processor, packages = timed(environment, modules, target, cache)
            print(f"{title:8} {packages:5} packages  {processor:7.2f} s of one core  {wall:7.2f} s")


if __name__ == "__main__":
    main()
