"""What the start of the redirect costs: the first `enable()` of a process, with its imports, and a later one.

    python benchmarks/shim/start.py [--target NAME] [--times N]

Each time in a fresh process with the simulated card, torch and its plugin loaded. What of torchferry the rehearsal has
loaded is forgotten before the clock starts, so that the first `enable()` imports its modules and reads its tables as it
does beside a real plugin; garbage of what came before is collected before it. Printed are medians in milliseconds, of
wall-clock time and of the processor's, and beside them what `import torch` took in the same processes, for machines
differ.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "src"
sys.path.insert(0, str(SOURCE))


def timed(step: Callable[[], object]) -> tuple[float, float]:
    """Return the wall-clock and the processor's milliseconds of a step."""
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    step()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - processor) * 1e3


def child(target: str) -> None:
    """Print what a first and a second `enable()` take, and `import torch` before them, as JSON."""
    torch = timed(lambda: importlib.import_module("torch"))
    from torchferry import rehearsal

    __import__(rehearsal.enable(target).backend.PLUGIN)
    for name in [name for name in sys.modules if name.partition(".")[0] in {"torchferry", "tomllib"}]:
        if not name.startswith("torchferry.rehearsal"):
            del sys.modules[name]

    def start() -> None:
        from torchferry.shim import enable

        redirects.append(enable("auto"))

    redirects: list[object] = []
    first = timed(start)
    redirects.pop().disable()  # type: ignore[attr-defined]
    print(json.dumps([first, timed(start), torch]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", default="npu")
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.target)
        return
    command = [sys.executable, __file__, "--child", "--target", arguments.target]
    runs = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(arguments.times))
    seen = [json.loads(run.stdout) for run in runs]
    print(f"{arguments.target}, {arguments.times} processes      wall  processor   (ms, medians)")
    for place, name in enumerate(("first enable()", "a later one", "import torch")):
        wall, processor = (statistics.median(one[place][kind] for one in seen) for kind in (0, 1))
        print(f"{name:<20} {wall:12.1f} {processor:10.1f}   from {min(one[place][0] for one in seen):.1f} to", end="")
        print(f" {max(one[place][0] for one in seen):.1f}")


if __name__ == "__main__":
    main()
