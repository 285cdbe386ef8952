"""Public versions of the vendors' plugins with their own torch: the wheel on the simulated driver, and our picture.

    python benchmarks/rehearsal/matrix.py --cache FOLDER [--only 2.5.1 ...] [--keep]
    python benchmarks/rehearsal/matrix.py --pages      # only write the pages anew from the results

Makes an environment for each torch in FOLDER, runs `matrix_program.py`, the bundled example, the checks of
`benchmarks/torch_versions` and the steps of `speed.py` there, and writes what it measured into `matrix.json` beside
this file and into `plugin-versions.md` of both languages. What cannot be had is skipped and says why. An environment
takes half a gigabyte and is removed when its versions are done, unless it is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.rehearsal.cases.versions import of_versions
from benchmarks.rehearsal.matrix_environment import ROOT, AbsentError, Environment, this_python
from benchmarks.rehearsal.matrix_pages import JUDGES, PROGRAMS, TOOLS, TRANSFERRED, WAYS, Row, load, save, write_pages
from benchmarks.torch_versions.check import checks
from torchferry.backends import registry

PROGRAM = Path(__file__).with_name("matrix_program.py")
REAL_PROGRAMS = Path(__file__).with_name("matrix_programs.py")
SPEED = Path(__file__).with_name("speed.py")
EXAMPLE = ROOT / "examples" / "cuda-training"
SINGLE = ("start", "cnn", "gpt", "amp")
LONGEST = 160
"""Characters of what a program says of its failure."""


@dataclass(frozen=True)
class Case:
    """A version of a plugin, and where it runs.

    Attributes:
        target: Name of the vendor's target.
        plugin: Version of the plugin.
        torch: The torch that it asks for.
        python: The first two numbers of Python's version; empty for that of the run.
        judges: With what it can be judged: the wheels of one vendor alone are public.
    """

    target: str
    plugin: str
    torch: str
    python: str = ""
    judges: tuple[str, ...] = JUDGES

    @property
    def place(self) -> tuple[str, str]:
        """The environment: of which torch and Python."""
        return self.torch, self.python or this_python()


SIMULATED = ("simulated",)

CASES = (
    Case("npu", "2.1.0.post17", "2.1.0"),
    Case("npu", "2.3.1.post6", "2.3.1"),
    Case("npu", "2.4.0.post4", "2.4.0"),
    Case("npu", "2.5.1", "2.5.1"),
    Case("npu", "2.6.0.post5", "2.6.0"),
    Case("npu", "2.7.1", "2.7.1"),
    Case("npu", "2.8.0.post5", "2.8.0"),
    Case("npu", "2.9.0", "2.9.0"),
    Case("npu", "2.10.0.post7", "2.10.0"),
    Case("npu", "2.11.0.post3", "2.11.0"),
    Case("npu", "2.12.0.post3", "2.12.0"),
    Case("npu", "2.13.0", "2.13.0"),
    Case("npu", "2.14.0", "2.14.0"),
    Case("npu", "2.1.0.post17", "2.1.0", "3.10"),
    Case("npu", "2.13.0", "2.13.0", "3.10"),
    Case("npu", "2.7.1.post11", "2.7.1", "3.12"),
    Case("npu", "2.13.0", "2.13.0", "3.12"),
    Case("npu", "2.7.1.post11", "2.7.1", "3.13"),
    Case("npu", "2.13.0", "2.13.0", "3.13"),
    Case("musa", "2.0.1", "2.2.0", judges=SIMULATED),
    Case("musa", "2.5.0", "2.5.0", judges=SIMULATED),
    Case("musa", "2.7.1", "2.7.1", judges=SIMULATED),
    Case("sdaa", "2.0.0", "2.4.0", judges=SIMULATED),
    Case("sdaa", "3.2.0", "2.7.1", judges=SIMULATED),
    Case("gcu", "2.5.1", "2.5.1", judges=SIMULATED),
    Case("gcu", "2.10.0", "2.10.0", judges=SIMULATED),
)


# --- what was printed ---


def sections(output: str) -> dict[str, tuple[list[str], str]]:
    """Return for each program its losses as they were printed, and what failed; see `matrix_program.py`."""
    found: dict[str, tuple[list[str], str]] = {}
    name = ""
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word == "PROGRAM":
            name = rest
            found.setdefault(name, ([], ""))
        elif word == "LOSS" and name:
            found[name][0].append(rest)
        elif word == "FAILED" and name:
            found[name] = (found[name][0], rest[:LONGEST])
    return found


def agreement(expected: list[str], seen: list[str]) -> str:
    """Return "equal" for the same text, else to how many digits the numbers agree."""
    if not expected or len(expected) != len(seen):
        return f"{len(seen)} losses of {len(expected)}"
    pairs = [(float(cpu), float(device)) for cpu, device in zip(expected, seen, strict=True)]
    if not all(math.isfinite(loss) for pair in pairs for loss in pair):
        return "not finite"
    worst = max(abs(cpu - device) / abs(cpu) if cpu else abs(device) for cpu, device in pairs)
    return f"{int(-math.log10(worst))} digits" if worst else "equal"


def last_error(err: str, code: int) -> str:
    """Return the last line of an output that tells an error."""
    lines = [line for line in err.splitlines() if "Error" in line and not line.startswith("[ERROR]")]
    return (lines or [f"exit code {code}"])[-1].strip()[:LONGEST]


# --- runs ---


@dataclass(frozen=True)
class Reference:
    """What the CPU of a torch printed.

    Attributes:
        sections: By program, see `sections`.
        float32: Programs that it ran in float32 where the device runs them in float16.
    """

    sections: dict[str, tuple[list[str], str]]
    float32: frozenset[str]


def reference(environment: Environment, port: int) -> Reference:
    """Run the programs on the CPU."""
    out, _, _ = environment.run(str(environment.python), str(PROGRAM), "cpu", *SINGLE)
    ranks_out, _, _ = environment.run(*two_ranks(environment, port), str(PROGRAM), "cpu", "ddp")
    float32 = {"amp"} if "REFERENCE float32" in out else set[str]()
    return Reference({**sections(out), **sections(ranks_out)}, frozenset(float32))


def two_ranks(environment: Environment, port: int) -> list[str]:
    """Return what starts a program in two processes, which meet at a port: 0 is one that is free."""
    if not port:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    return [str(environment.python), "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(port)]


class Judged:
    """A case with one judge."""

    def __init__(self, environment: Environment, case: Case, judge: str) -> None:
        backend = registry.load(case.target)
        wheel = judge == "wheel"
        self._environment = environment
        self._case = case
        self._plugin = str(environment.download(backend.PLUGIN, case.plugin)) if wheel else "simulated"
        self._target = case.target if wheel else f"{case.target}@{case.plugin}"
        self._device = f"{backend.DEVICE_TYPE}:{backend.PLUGIN}:{backend.COLLECTIVE}"
        self.row = Row(backend.PLUGIN, case.plugin, *environment.versions, judge)

    def run(self, on_cpu: Reference, port: int, *, tools: bool) -> None:
        """Run everything but the real programs and the steps that are timed; the results are in the row."""
        results = self._programs(on_cpu, port)
        results["example"] = self._example()
        self.row.results = {name: results[name] for name in PROGRAMS}
        if tools:
            self.run_tools()

    def run_tools(self) -> None:
        """Run the checks of the tools; the result is in the row."""
        self.row.results[TOOLS] = self._tools()

    def run_steps(self) -> None:
        """Time steps beside the CPU's; the ratios of processor time are in the row."""
        command = [str(self._environment.python), str(SPEED), "--target", self._target, "--plugin", self._plugin]
        out, err, code = self._environment.run(*command, "--ratios")
        if code:
            print(f"{self.row.plugin} {SPEED.name}: {last_error(err, code)}", flush=True)
            return
        self.row.costs = {model: round(ratio, 3) for model, ratio in json.loads(out.splitlines()[-1]).items()}

    def run_real_programs(self, corpus: Path, wanted: Collection[str], ways: Sequence[str]) -> None:
        """Run the real programs, of which `wanted` names some or none for all; each is saved when it has run."""
        if not self._environment.add_packages():
            return
        for case in of_versions():
            if not wanted or case.name in wanted:
                self.row.programs |= self._real_program(case.name, corpus, ways)
                save([self.row])
                print(self.row.plugin, case.name, self.row.programs.get(case.name), flush=True)

    def _rehearsal(self, devices: int) -> list[str]:
        command = [str(self._environment.python), "-m", "torchferry", "rehearse", "-t", self._target]
        return [*command, "--plugin", self._plugin, "--devices", str(devices), "--"]

    def _programs(self, on_cpu: Reference, port: int) -> dict[str, str]:
        single = [*self._rehearsal(1), str(self._environment.python), str(PROGRAM), self._device, *SINGLE]
        ranks = [*self._rehearsal(2), *two_ranks(self._environment, port), str(PROGRAM), self._device, "ddp"]
        results = {}
        for programs, command in ((SINGLE, single), (("ddp",), ranks)):
            out, err, code = self._environment.run(*command)
            seen = sections(out)
            for name in programs:
                losses, failure = seen.get(name, ([], ""))
                expected, failed_there = on_cpu.sections.get(name, ([], "the CPU did not run it"))
                if failure or failed_there or not losses:
                    results[name] = failure or failed_there or last_error(err, code)
                elif name == "start":
                    results[name] = "yes" if losses == expected else agreement(expected, losses)
                else:
                    results[name] = agreement(expected, losses) + (" of float32" if name in on_cpu.float32 else "")
        return results

    def _example(self) -> str:
        """Migrate a copy of the bundled example and rehearse it, as `make demo` does."""
        environment = self._environment
        project = environment.folder / "example"
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(EXAMPLE, project)
        wanted = f"{self._case.target}@{self._case.plugin}"
        tool = [str(environment.python), "-m", "torchferry"]
        _, err, code = environment.run(*tool, "migrate", ".", "--target", wanted, folder=project)
        if code > 1:  # 1: something is left to decide by hand
            return last_error(err, code)
        device = self._device.partition(":")[0]
        program = [str(environment.python), "train.py", "--device", device, "--steps", "5"]
        out, err, code = environment.run(*self._rehearsal(1), *program, folder=project)
        if code or "loss" not in out:
            return last_error(err, code)
        return "runs" if "nothing was seen that would fail" in err else "runs; would fail on the card"

    def _real_program(self, name: str, corpus: Path, ways: Sequence[str]) -> dict[str, dict[str, str]]:
        target = f"{self._case.target}@{self._case.plugin}"
        program = [str(self._environment.python), str(REAL_PROGRAMS), "--corpus", str(corpus), "--target", target]
        program += ["--plugin", self._plugin, "--ways", *ways, "--", name]
        out, err, code = self._environment.run(*program, packages=True)
        if code:
            print(f"{self.row.plugin}: {last_error(err, code)}", flush=True)
        done = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return {each["name"]: each["results"] for each in done if not each["absent"]}

    def _tools(self) -> str:
        environment = self._environment
        with tempfile.TemporaryDirectory(prefix="matrix-tools-") as folder:
            done = list(checks(str(environment.python), Path(folder), self._plugin, environment.variables))
        failed = [check for check in done if not check.passed]
        for check in failed:
            print(f"{self.row.plugin} {check.name}: {check.said}", flush=True)
        count = f"{len(done) - len(failed)}/{len(done)}"
        return f"{count}: {', '.join(check.name for check in failed)}" if failed else count


def measure(
    environment: Environment,
    cases: list[Case],
    *,
    port: int,
    judges: tuple[str, ...],
    tools: bool,
    alone: str,
    corpus: Path | None,
    programs: Collection[str],
    ways: Sequence[str],
) -> None:
    """Run everything in one environment, or what `alone` names: "tools", "steps" or "programs"."""
    try:
        environment.make()
        torch, python = environment.versions
    except AbsentError as error:
        for case in cases:
            skip(case, environment.torch, case.place[1], str(error), judges)
        return
    on_cpu = reference(environment, port) if not alone else None
    for case in cases:
        for judge in case.judges:
            if judge not in judges:
                continue
            started = time.monotonic()
            try:
                judged = Judged(environment, case, judge)
            except AbsentError as error:
                skip(case, torch, python, str(error), (judge,))
                continue
            if on_cpu is not None:
                judged.run(on_cpu, port, tools=tools and case.target == "npu")
            if alone == "tools" and case.target == "npu":
                judged.run_tools()
            if alone in {"", "steps"}:
                judged.run_steps()
            save([judged.row])
            on_this = judge == "wheel" and case.place[1] == this_python()
            if alone in {"", "programs"} and corpus is not None and on_this:
                judged.run_real_programs(corpus, programs, ways)
            seconds = time.monotonic() - started
            print(*case.place, case.target, case.plugin, judge, judged.row.results, f"{seconds:.0f} s", flush=True)


def skip(case: Case, torch: str, python: str, why: str, judges: tuple[str, ...]) -> None:
    """Note that a case did not run."""
    print(case, why, flush=True)
    package = registry.load(case.target).PLUGIN
    save([Row(package, case.plugin, torch, python, judge, skipped=why) for judge in case.judges if judge in judges])


def main() -> None:
    """Run the matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=ROOT / ".matrix", help="folder for environments and wheels")
    parser.add_argument("--only", nargs="*", default=[], metavar="VERSION", help="versions of a plugin or of torch")
    parser.add_argument("--python", nargs="*", default=[], metavar="VERSION", help="only these, such as 3.12")
    parser.add_argument("--target", nargs="*", default=[], metavar="NAME", help="only these")
    parser.add_argument("--judge", choices=JUDGES, help="only this one")
    parser.add_argument("--no-tools", action="store_true", help="leave out the checks of benchmarks/torch_versions")
    parser.add_argument("--tools", action="store_const", dest="alone", const="tools", help="run those checks alone")
    parser.add_argument("--steps", action="store_const", dest="alone", const="steps", help="time steps alone")
    parser.add_argument("--corpus", type=Path, default=os.environ.get("TORCHFERRY_CORPUS"), help="for real programs")
    parser.add_argument("--programs", nargs="*", metavar="NAME", help="run real programs alone, and of them only these")
    parser.add_argument("--ways", nargs="+", choices=WAYS + TRANSFERRED, default=WAYS + TRANSFERRED, help="run them so")
    parser.add_argument("--keep", action="store_true", help="keep environments and torch's wheels")
    parser.add_argument("--pages", action="store_true", help="run nothing: write the pages from the results")
    parser.add_argument("--port", type=int, default=0, help="the port that ranks meet at; by itself one that is free")
    options = parser.parse_args()
    wanted = [
        case
        for case in CASES
        if (not options.only or {case.plugin, case.torch} & set(options.only))
        and (not options.python or case.place[1] in options.python)
        and (not options.target or case.target in options.target)
    ]
    wanted.sort(key=lambda case: ([int(part) for part in case.torch.split(".")], case.place[1]))
    judges = (options.judge,) if options.judge else JUDGES
    for (torch, python), cases in groupby([] if options.pages else wanted, lambda case: case.place):
        try:
            environment = Environment(options.cache.resolve(), torch, python)
        except AbsentError as error:
            for case in cases:
                skip(case, torch, python, str(error), judges)
            continue
        corpus = options.corpus.resolve() if options.corpus else None
        measure(
            environment,
            list(cases),
            port=options.port,
            judges=judges,
            tools=not options.no_tools,
            alone="programs" if options.programs is not None else options.alone or "",
            corpus=corpus,
            programs=options.programs or (),
            ways=options.ways,
        )
        if not options.keep:
            environment.remove()
    write_pages(load())


if __name__ == "__main__":
    main()
