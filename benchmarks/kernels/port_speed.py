"""What a port of CUDA C++ costs beside its peers: processor seconds (user and system), in turn, in one run.

    python -m benchmarks.kernels.port_speed --tree mmcv/mmcv/ops/csrc [--torch-musa CHECKOUT] [--runs 3]

`--tree` is the CUDA C++ to port; the figures of docs/en/benchmarks.md are of mmcv 2.1.0. `--torch-musa` is a checkout
of torch_musa, whose `utils/simple_porting.py` is the first peer; the second is `torch.utils.hipify` of the installed
torch, alone, with the folders that hold the tree's own headers (`--include`; mmcv's are those that its `setup.py`
names, which `CUDAExtension` gives to hipify): without them it leaves the `#include` lines of these headers as they
are; and as `CUDAExtension` calls it in a build for ROCm: for the sources that `setup.py` lists (`--sources`) and the
headers that they include, not for the whole tree. A peer that is not there is skipped with the reason. Without
`--tree`, `TORCHFERRY_REPOSITORIES` is looked through for both. Each tool reads the same copy of the tree and writes
its whole result. The clock starts when its modules are imported, so that torch's import counts for nobody; the last
lines are whole processes. The cost by size is measured on copies of the tree, 4 MB and 40 MB of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.measure import successful_cost
from benchmarks.repositories import repository

OURS = """
import gc, sys, time
gc.disable()  # as the command line has it
from pathlib import Path
from torchferry.backends.target import Target
from torchferry.kernels.output import write_beside
from torchferry.kernels.ported_tree import port_tree
import torchferry.kernels.review, torchferry.migration.transaction
begin = time.process_time()
ported = port_tree(Path(sys.argv[1]), Target.named("musa"))
read = time.process_time()
if sys.argv[2:]:
    write_beside(ported, Path(sys.argv[2]))
print(read - begin, time.process_time() - begin)
"""

SIMPLE_PORTING = """
import contextlib, importlib, os, sys, time, types
package = types.ModuleType("peer")
package.__path__ = [sys.argv[2]]
sys.modules["peer"] = package
module = importlib.import_module("peer.simple_porting")
begin = time.process_time()
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    module.SimplePorting(sys.argv[1]).run()
print(time.process_time() - begin)
"""

HIPIFY = """
import contextlib, os, sys, time
from torch.utils.hipify import hipify_python
begin = time.process_time()
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    hipify_python.hipify(
        sys.argv[1],
        output_directory=sys.argv[1] + "_hip",
        header_include_dirs=sys.argv[2:],
        includes=[sys.argv[1] + "/*"],
        is_pytorch_extension=True,
    )
print(time.process_time() - begin)
"""


HIPIFY_AS_BUILT = """
import contextlib, glob, os, sys, time
from torch.utils.hipify import hipify_python
root, folders, patterns = sys.argv[1], sys.argv[2].split(":"), sys.argv[3].split(":")
os.chdir(root)
sources = [os.path.abspath(name) for pattern in patterns for name in glob.glob(pattern)]
begin = time.process_time()
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    hipify_python.hipify(
        project_directory=root,
        output_directory=root,
        header_include_dirs=[os.path.abspath(folder) for folder in folders],
        includes=[os.path.join(root, "*")],
        extra_files=sources,
        show_detailed=True,
        is_pytorch_extension=True,
        hipify_extra_files_only=True,
    )
print(time.process_time() - begin)
"""
"""The arguments are those that torch's `CUDAExtension` gives to hipify."""


def figures(script: str, *arguments: str) -> list[float]:
    """Run a script in a process of its own and return the numbers of its last line.

    Raises:
        RuntimeError: the script failed.
    """
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-800:])
    return [float(number) for number in done.stdout.splitlines()[-1].split()]


def fresh(tree: Path, folder: Path) -> Path:
    """Return a new copy of the tree in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tree, folder / "csrc", ignore=shutil.ignore_patterns(".git"))
    os.sync()  # or the copy would be written to the disk on the account of whoever makes its own files durable
    return folder / "csrc"


def size(tree: Path) -> int:
    """Return the bytes of all files of a tree."""
    return sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())


def beside_peers(
    tree: Path, peer: Path | None, include: list[str], sources: list[str], runs: int, folder: Path
) -> None:
    """Print what each tool costs: the median of its runs, and the ratio of the medians."""
    hipify = find_spec("torch") is not None
    measured: dict[str, list[float]] = {}
    for _ in range(runs):
        copy = fresh(tree, folder / "ours")
        in_memory, written = figures(OURS, str(copy), str(copy) + "_musa")
        measured.setdefault("torchferry, port and review", []).append(in_memory)
        measured.setdefault("torchferry, written and journalled", []).append(written)
        if peer is not None:
            spent = figures(SIMPLE_PORTING, str(fresh(tree, folder / "simple")), str(peer))[0]
            measured.setdefault("SimplePorting", []).append(spent)
        for name, folders in {"torch.utils.hipify": [], "the same, with folders of headers": include}.items():
            if hipify and (folders or name == "torch.utils.hipify"):
                spent = figures(HIPIFY, str(fresh(tree, folder / "hip")), *folders)[0]
                measured.setdefault(name, []).append(spent)
        if hipify and include and sources:
            spent = figures(HIPIFY_AS_BUILT, str(fresh(tree, folder / "hip")), ":".join(include), ":".join(sources))[0]
            measured.setdefault("hipify, as the build calls it", []).append(spent)
    if peer is None:
        print("SimplePorting: skipped, no checkout of torch_musa (--torch-musa)")
    if not hipify:
        print("torch.utils.hipify: skipped, torch is not installed")
    medians = {name: statistics.median(seconds) for name, seconds in measured.items()}
    memory, written = (medians[name] for name in list(medians)[:2])
    for name, seconds in measured.items():
        spread = f"{medians[name]:6.3f} CPU s ({min(seconds):.3f} to {max(seconds):.3f})"
        ratio = (
            "" if name.startswith("torchferry") else f"  x{medians[name] / memory:.1f}, x{medians[name] / written:.1f}"
        )
        print(f"{name:36} {spread}{ratio}")


def whole_processes(tree: Path, runs: int, folder: Path) -> None:
    """Print what `torchferry port` costs as a process, its start and its output included."""
    spent = []
    for _ in range(runs):
        copy = fresh(tree, folder / "cold")
        spent.append(
            successful_cost([sys.executable, "-m", "torchferry", "port", str(copy), "--target", "musa"]).seconds
        )
    seconds = statistics.median(spent)
    print(f"{'torchferry port, whole process':36} {seconds:6.3f} CPU s ({min(spent):.3f} to {max(spent):.3f})")


def by_size(tree: Path, folder: Path) -> None:
    """Print the cost of 4 MB and 40 MB: copies of the tree side by side."""
    one = size(tree)
    for wanted in (4_000_000, 40_000_000):
        shutil.rmtree(folder, ignore_errors=True)
        copies = max(1, round(wanted / one))
        for number in range(copies):
            shutil.copytree(tree, folder / "many" / f"copy{number}", ignore=shutil.ignore_patterns(".git"))
        command = [sys.executable, "-m", "torchferry", "port", str(folder / "many"), "--target", "musa", "--check"]
        spent = successful_cost(command)
        total = size(folder / "many") / 1e6
        each = 1e3 * spent.seconds / total
        print(f"--check of {total:.1f} MB: {spent.seconds:.2f} CPU s, {each:.0f} ms/MB, {spent.mebibytes:.0f} MiB")


def main() -> None:
    """Measure."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tree", type=Path)
    arguments.add_argument("--torch-musa", type=Path, default=repository("MooreThreads", "torch_musa"))
    arguments.add_argument("--include", nargs="*", default=["common", "common/cuda", "pytorch"])
    arguments.add_argument(
        "--sources",
        nargs="*",
        default=["pytorch/*.cpp", "pytorch/cpu/*.cpp", "pytorch/cuda/*.cu", "pytorch/cuda/*.cpp"],
    )
    arguments.add_argument("--runs", type=int, default=3)
    chosen = arguments.parse_args()
    # with it each run would parse torchferry's tables and compile its modules again, as nobody's but the first does
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    tree = chosen.tree
    if tree is None:
        checkout = repository("open-mmlab", "mmcv")
        if checkout is None:
            print("skipped: no checkout of open-mmlab/mmcv; name the CUDA C++ with --tree")
            return
        tree = checkout / "mmcv" / "ops" / "csrc"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its modules compiled and its tables read
    successful_cost([sys.executable, "-m", "torchferry", "port", str(tree), "--target", "musa", "--check"])
    utils = chosen.torch_musa / "torch_musa" / "utils" if chosen.torch_musa is not None else None
    print(
        f"{sum(path.is_file() for path in tree.rglob('*'))} files, {size(tree) / 1e6:.2f} MB; medians of {chosen.runs}"
    )
    with tempfile.TemporaryDirectory() as name:
        include = [each for each in chosen.include if (tree / each).is_dir()]
        beside_peers(tree, utils, include, chosen.sources, chosen.runs, Path(name))
        whole_processes(tree, chosen.runs, Path(name))
        by_size(tree, Path(name))


if __name__ == "__main__":
    main()
