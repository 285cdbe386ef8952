"""Every public version of the vendor's plugin with its own torch: the wheel on the simulated driver, and our picture.

    python benchmarks/rehearsal/matrix.py --cache FOLDER [--only 2.5.1 ...] [--keep]
    python benchmarks/rehearsal/matrix.py --pages      # only write the pages anew from the results

Makes an environment for each version in FOLDER, runs `matrix_program.py` and the bundled example there, and writes what
it measured into `matrix.json` beside this file and into `plugin-versions.md` of both languages. What cannot be had is
skipped and says why. An environment takes half a gigabyte and is removed when its version is done, unless it is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.rehearsal import cuda_free

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("matrix_program.py")
RESULTS = Path(__file__).with_suffix(".json")
EXAMPLE = ROOT / "examples" / "cuda-training"
PAGES = {language: ROOT / "docs" / language / "plugin-versions.md" for language in ("en", "zh")}
BLOCK = ("<!-- measured: written by make matrix -->", "<!-- end -->")

PACKAGE = "torch-npu"
SINGLE = ("start", "cnn", "gpt", "amp")
PROGRAMS = ("start", "example", "cnn", "gpt", "amp", "ddp")
JUDGES = ("wheel", "simulated")
LIMIT = 900
"""Seconds for one run, which may build the device first."""


@dataclass(frozen=True)
class Version:
    """A public version of the plugin, and the torch that it asks for."""

    plugin: str
    torch: str


VERSIONS = (
    Version("2.1.0.post17", "2.1.0"),
    Version("2.5.1", "2.5.1"),
    Version("2.7.1", "2.7.1"),
    Version("2.9.0", "2.9.0"),
    Version("2.13.0", "2.13.0"),
    Version("2.3.1.post6", "2.3.1"),
    Version("2.4.0.post4", "2.4.0"),
    Version("2.6.0.post5", "2.6.0"),
    Version("2.8.0.post5", "2.8.0"),
    Version("2.10.0.post7", "2.10.0"),
    Version("2.11.0.post3", "2.11.0"),
    Version("2.12.0.post3", "2.12.0"),
    Version("2.14.0", "2.14.0"),
)


@dataclass
class Row:
    """What one judge said at one version.

    Attributes:
        judge: One of `JUDGES`.
        plugin: Version of the plugin.
        torch: Version of torch, as it says itself.
        python: Version of Python.
        skipped: Why nothing ran; empty where something did.
        results: For each of `PROGRAMS`: "equal", "7 digits", or what went wrong.
    """

    judge: str
    plugin: str
    torch: str
    python: str
    skipped: str = ""
    results: dict[str, str] = field(default_factory=dict)


class AbsentError(Exception):
    """Something that a version needs cannot be had."""


# --- environments ---


class Environment:
    """A Python environment with one version of torch."""

    def __init__(self, cache: Path, version: Version) -> None:
        self.wheels = cache / "wheels"
        self.folder = cache / "environments" / f"torch-{version.torch}"
        self.python = self.folder / "bin" / "python"
        self.version = version
        self.variables = {
            **os.environ,
            "TORCHFERRY_CACHE": str(cache / "torchferry"),
            "OMP_NUM_THREADS": "1",
            "TORCHFERRY_LANG": "en",  # the results are read from sentences
            "PYTHONPATH": str(ROOT / "src"),
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
        }

    def make(self) -> None:
        """Install torch and what the plugin and torchferry import."""
        if (self.folder / "made").exists():
            return
        subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        release = tuple(map(int, self.version.torch.split(".")[:2]))
        needed = ["numpy<2" if release < (2, 3) else "numpy", "setuptools<81", "pyyaml", "packaging", "click", "rich"]
        needed += ["typing_extensions", "filelock", "sympy", "networkx", "jinja2", "fsspec", "decorator", "attrs"]
        self._pip("install", "--quiet", *needed)
        try:
            self._pip("install", "--quiet", "--no-deps", f"torch=={self.version.torch}+cpu")
        except AbsentError:
            wheel = self.download("torch", self.version.torch)
            (site_packages,) = (self.folder / "lib").glob("python*/site-packages")
            cuda_free.unpack(wheel, site_packages, release=release)
        (self.folder / "made").touch()

    def download(self, name: str, version: str) -> Path:
        """Return the wheel of a package for this Python."""
        pattern = f"{name.replace('-', '_')}-{version}-cp{sys.version_info.major}{sys.version_info.minor}-*.whl"
        found = sorted(self.wheels.glob(pattern))
        if not found:
            self._pip("download", "--quiet", "--no-deps", "--dest", str(self.wheels), f"{name}=={version}")
            found = sorted(self.wheels.glob(pattern))
        if not found:
            raise AbsentError(f"no wheel of {name} {version} for this Python")
        return found[0]

    def _pip(self, *words: str) -> None:
        done = subprocess.run([str(self.python), "-m", "pip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise AbsentError((errors or ["pip failed"])[-1].removeprefix("ERROR: "))

    def run(self, *words: str, folder: Path | None = None) -> tuple[str, str, int]:
        """Run a command: what it printed, what it told, its exit code."""
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, check=False, env=self.variables, cwd=folder, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return "", f"not ended after {LIMIT} s", 124
        return done.stdout, done.stderr, done.returncode

    def torch_version(self) -> str:
        out, err, code = self.run(str(self.python), "-c", "import torch; print(torch.__version__)")
        if code:
            reason = (err.splitlines() or [f"exit code {code}"])[-1]
            raise AbsentError(f"this torch cannot be imported here: {reason}")
        return out.strip()


# --- runs ---


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
            found[name] = (found[name][0], rest)
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


def rehearsal(environment: Environment, judge: str, devices: int) -> list[str]:
    plugin = "simulated" if judge == "simulated" else str(environment.download(PACKAGE, environment.version.plugin))
    target = f"npu@{environment.version.plugin}" if judge == "simulated" else "npu"
    command = [str(environment.python), "-m", "torchferry", "rehearse", "-t", target, "--plugin", plugin]
    return [*command, "--devices", str(devices), "--"]


def two_ranks(environment: Environment, port: int) -> list[str]:
    return [str(environment.python), "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(port)]


def compare(
    environment: Environment, judge: str, on_cpu: dict[str, tuple[list[str], str]], float32: set[str], port: int
) -> dict[str, str]:
    """Run all programs with one judge and compare their losses with the CPU's; `float32`: what the CPU ran in that."""
    single = [*rehearsal(environment, judge, 1), str(environment.python), str(PROGRAM), "npu", *SINGLE]
    ranks = [*rehearsal(environment, judge, 2), *two_ranks(environment, port), str(PROGRAM), "npu", "ddp"]
    results = {}
    for programs, command in ((SINGLE, single), (("ddp",), ranks)):
        out, err, code = environment.run(*command)
        seen = sections(out)
        for name in programs:
            losses, failure = seen.get(name, ([], ""))
            expected, failed_there = on_cpu.get(name, ([], "the CPU did not run it"))
            if failure or failed_there or not losses:
                results[name] = failure or failed_there or last_error(err, code)
            elif name == "start":
                results[name] = "yes" if losses == expected else agreement(expected, losses)
            else:
                results[name] = agreement(expected, losses) + (" of float32" if name in float32 else "")
    results["example"] = example(environment, judge)
    return {name: results[name] for name in PROGRAMS}


def last_error(err: str, code: int) -> str:
    lines = [line for line in err.splitlines() if "Error" in line and not line.startswith("[ERROR]")]
    return (lines or [f"exit code {code}"])[-1].strip()[:200]


def example(environment: Environment, judge: str) -> str:
    """Migrate a copy of the bundled example and rehearse it, as `make demo` does."""
    project = environment.folder / "example"
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(EXAMPLE, project)
    tool = [str(environment.python), "-m", "torchferry"]
    wanted = f"npu@{environment.version.plugin}"
    _, err, code = environment.run(*tool, "migrate", ".", "--target", wanted, folder=project)
    if code > 1:  # 1: something is left to decide by hand
        return last_error(err, code)
    program = [str(environment.python), "train.py", "--device", "npu", "--steps", "5"]
    out, err, code = environment.run(*rehearsal(environment, judge, 1), *program, folder=project)
    if code or "loss" not in out:
        return last_error(err, code)
    return "runs" if "nothing was seen that would fail" in err else "runs; would fail on the card"


def measure(cache: Path, version: Version, *, port: int, judges: tuple[str, ...]) -> list[Row]:
    """Run everything at one version."""
    python = ".".join(map(str, sys.version_info[:3]))
    environment = Environment(cache, version)
    try:
        environment.make()
        torch = environment.torch_version()
        environment.download(PACKAGE, version.plugin)
    except AbsentError as error:
        return [Row(judge, version.plugin, version.torch, python, skipped=str(error)) for judge in judges]
    out, _, _ = environment.run(str(environment.python), str(PROGRAM), "cpu", *SINGLE)
    ranks_out, _, _ = environment.run(*two_ranks(environment, port), str(PROGRAM), "cpu", "ddp")
    on_cpu = {**sections(out), **sections(ranks_out)}
    float32 = {"amp"} if "REFERENCE float32" in out else set()
    rows = []
    for number, judge in enumerate(judges, 1):
        results = compare(environment, judge, on_cpu, float32, port + number)
        rows.append(Row(judge, version.plugin, torch, python, results=results))
    return rows


# --- results and pages ---


def load() -> list[Row]:
    return [Row(**each) for each in json.loads(RESULTS.read_text(encoding="utf-8"))] if RESULTS.exists() else []


def save(rows: list[Row]) -> None:
    """Put rows in the place of those that were measured before."""
    fresh = {(row.plugin, row.judge) for row in rows}
    kept = [row for row in load() if (row.plugin, row.judge) not in fresh]
    ordered = sorted([*kept, *rows], key=place)
    RESULTS.write_text(json.dumps([asdict(row) for row in ordered], indent=1) + "\n", encoding="utf-8")


def place(row: Row) -> tuple[list[int], int]:
    return [int(part.removeprefix("post")) for part in row.plugin.split(".")], JUDGES.index(row.judge)


WORDS = {
    "en": {
        "head": ["torch_npu", "torch", "Python", "plugin", "starts", "example", "CNN", "GPT", "float16", "two ranks"],
        "wheel": "the wheel",
        "simulated": "simulated",
    },
    "zh": {
        "head": ["torch_npu", "torch", "Python", "插件", "启动", "示例", "CNN", "GPT", "float16", "双进程"],
        "wheel": "官方 wheel",
        "simulated": "模拟插件",
        "yes": "是",
        "runs": "可运行",
        "equal": "完全一致",
        "digits": "{} 位有效数字",
        "of float32": "（相对 float32）",
        "skipped": "未运行：{}",
    },
}


def table(rows: list[Row], language: str) -> str:
    """Return the results as a table of Markdown."""
    words = WORDS[language]
    head = list(words["head"])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row.plugin, row.torch.partition("+")[0], row.python, str(words[row.judge])]
        if row.skipped:
            cells += [str(words.get("skipped", "not run: {}")).format(row.skipped), *[""] * (len(PROGRAMS) - 1)]
        else:
            cells += [in_words(row.results[name], language) for name in PROGRAMS]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def in_words(result: str, language: str) -> str:
    words = WORDS[language]
    count, _, unit = result.partition(" ")
    if unit.startswith("digits"):
        digits = str(words.get("digits", "{} digits")).format(count)
        return digits + str(words.get("of float32", " of float32")) if unit.endswith("float32") else digits
    return str(words.get(result, result))


def write_pages(rows: list[Row]) -> None:
    """Write the tables between the marks of the two pages."""
    for language, page in PAGES.items():
        before, begin, rest = page.read_text(encoding="utf-8").partition(BLOCK[0])
        _, end, after = rest.partition(BLOCK[1])
        page.write_text(f"{before}{begin}\n\n{table(rows, language)}\n\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Run the matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=ROOT / ".matrix", help="folder for environments and wheels")
    parser.add_argument("--only", nargs="*", default=[], metavar="VERSION", help="versions of the plugin or of torch")
    parser.add_argument("--judge", choices=JUDGES, help="only this one")
    parser.add_argument("--keep", action="store_true", help="keep environments and torch's wheels")
    parser.add_argument("--pages", action="store_true", help="run nothing: write the pages from the results")
    parser.add_argument("--port", type=int, default=29400, help="the first of the ports that ranks meet at")
    options = parser.parse_args()
    wanted = [v for v in VERSIONS if not options.only or {v.plugin, v.torch} & set(options.only)]
    for index, version in enumerate([] if options.pages else wanted):
        started = time.monotonic()
        judges = (options.judge,) if options.judge else JUDGES
        rows = measure(options.cache.resolve(), version, port=options.port + 4 * index, judges=judges)
        save(rows)
        for row in rows:
            print(row.plugin, row.judge, row.skipped or row.results, flush=True)
        print(f"{version.plugin}: {time.monotonic() - started:.0f} s", flush=True)
        if not options.keep:
            shutil.rmtree(options.cache / "environments" / f"torch-{version.torch}", ignore_errors=True)
            for wheel in (options.cache / "wheels").glob(f"torch-{version.torch}*.whl"):
                wheel.unlink()
    write_pages(load())


if __name__ == "__main__":
    main()
