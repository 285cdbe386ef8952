"""What `torchferry ops codegen` costs at full scale: every operator that a GPU has to bring a kernel for.

    python benchmarks/ops/codegen_cost.py                              generate
    python benchmarks/ops/codegen_cost.py --compile                    and compile every file (minutes)
    python benchmarks/ops/codegen_cost.py --list musa_functions.yaml   and classify a list of somebody's

CPU seconds are user and system time of the process, so they hold while others work on the machine; memory is
the largest that the compiler held at once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from torchferry.ops.codegen.building import Build
from torchferry.ops.codegen.document import read_document
from torchferry.ops.codegen.entries import OperatorEntry, entries_of
from torchferry.ops.codegen.upstream import ChosenOperators, Upstream, torch_folder
from torchferry.ops.kernels import from_table

COPIES = frozenset({"_copy_from", "_copy_from_and_resize"})
"""What every plugin brings beside `gpu_core`: CUDA copies in `copy_` itself, and has no kernel of these names."""


def gpu_core_list(chosen: ChosenOperators, operators: list[str]) -> str:
    """Return a list of operators in which each takes as much of torch's as it can."""
    lines: dict[str, list[str]] = {}
    for operator in operators:
        for member in chosen.members(operator) if chosen.is_structured(operator) else [operator]:
            lines.setdefault(member, entry_lines(chosen, member))
    return "".join(f"{line}\n" for entry in lines.values() for line in entry)


def entry_lines(chosen: ChosenOperators, operator: str) -> list[str]:
    """Return the entry of one operator."""
    on_cpu, on_cuda = chosen.kernel(operator, "CPU"), chosen.kernel(operator, "CUDA")
    if chosen.is_structured(operator):
        out = str(chosen.group(operator).out.func.name)
        if operator != out or (on_cpu and on_cpu == on_cuda):
            return [f"- func: {operator}"]
    elif on_cpu and on_cpu == on_cuda:
        return [f"- func: {operator}", f"  shared: at::native::{on_cpu}"]
    kernel = "Core_" + operator.replace(".", "_")
    return [f"- func: {operator}", "  dispatch:", f"    PrivateUse1: {kernel}"]


def cost(command: list[str]) -> tuple[float, float, int]:
    """Run a command; returns its CPU seconds, its largest memory in MiB, and its exit code."""
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**10, process.returncode


def as_written(entries: list[OperatorEntry], chosen: ChosenOperators) -> Counter[str]:
    """Count entries by how they are written: an unknown operator counts as unstructured, an in-place form by itself."""
    by_operator = {entry.operator: entry for entry in entries}
    counts: Counter[str] = Counter()
    for entry in entries:
        known = entry.operator in chosen.functions
        structured = known and chosen.is_structured(entry.operator)
        own = "PrivateUse1" in entry.dispatch
        if entry.dispatch and not own:
            counts["other key"] += 1
        elif not structured:
            counts["unstructured"] += 1
        else:
            out = by_operator[str(chosen.group(entry.operator).out.func.name)]
            customized = bool(entry.inherits or entry.precomputed)
            counts["override" if out.resets else "Customized" if customized else "LegacyMeta" if own else "Legacy"] += 1
    return counts


def main() -> int:
    """Measure; returns 1 when something does not compile."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--compile", action="store_true")
    arguments.add_argument("--list", type=Path)
    arguments.add_argument("--only", type=int, default=None, help="compile this many files alone")
    chosen = arguments.parse_args()
    upstream = Upstream()
    operators = sorted((from_table().groups["gpu_core"] | COPIES) & upstream.names)
    command = [sys.executable, "-m", "torchferry", "ops", "codegen"]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        functions, out = folder / "core.yaml", folder / "out"
        functions.write_text(gpu_core_list(upstream.choose(operators), operators))
        seconds, memory, code = cost(
            [*command, str(functions), "--namespace", "at::core", "--out", str(out), "-o", str(folder / "table")]
        )
        summary = (folder / "table").read_text().partition("\n\n")[2].splitlines()[0]
        print(f"{len(operators)} operators, gpu_core and the copies: {summary}")
        print(f"generated in {seconds:.1f} CPU s with {memory:.0f} MiB (exit code {code})")
        files = sorted(out.glob("*.cpp"))
        lines = sum(path.read_text().count("\n") for path in out.iterdir())
        print(f"{len(files)} files, {lines} lines")
        build = Build(tuple(files), (out,), torch_folder())
        for path in files[: chosen.only] if chosen.compile else ():
            seconds, memory, code = cost(build.compile_command(path, folder / "object.o"))
            failed |= code
            state = "compiles" if code == 0 else "FAILS"
            print(f"{path.name:20} {state} {seconds:6.1f} CPU s {memory:6.0f} MiB", flush=True)
    if chosen.list is not None:
        entries = entries_of(read_document(chosen.list), chosen.list).entries
        seconds, _, code = cost(
            [*command, str(chosen.list), "--namespace", "at::listed", "--dry-run", "--leave-out", "-o", os.devnull]
        )
        counts = as_written(entries, upstream.choose(entry.operator for entry in entries))
        print(
            f"{chosen.list.name}: {len(entries)} entries, {dict(counts)}, "
            f"read in {seconds:.1f} CPU s (exit code {code})"
        )
    return int(failed != 0)


if __name__ == "__main__":
    raise SystemExit(main())
