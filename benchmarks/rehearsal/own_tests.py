"""The tests that a plugin's vendor wrote for it, on the vendor's own plugin and the simulated driver.

    python benchmarks/rehearsal/own_tests.py TESTS --plugin WHEEL [--results FILE] [--devices 2] [--only NAME ...]
    python benchmarks/rehearsal/own_tests.py --read FILE

TESTS is a folder of the vendor's source, such as `test/npu` of Ascend/pytorch at the commit of the plugin. Each file
runs in a process of its own under `torchferry rehearse`, with pytest; a file that crashes is told apart, and what it
had run until then counts. FILE gets a line of JSON for each test; with `--read` it is only summed up: what passed,
failed and was skipped by file, and the failures by what they say.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

LIMIT = 420
"""Seconds for a file."""

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Result:
    """What came of a test.

    Attributes:
        file: Name of its file.
        test: Its name in the file; empty for the file as a whole.
        outcome: "passed", "failed", "skipped" or "crashed".
        said: The last line of its error.
    """

    file: str
    test: str
    outcome: str
    said: str = ""


# --- inside of pytest ---


def pytest_runtest_logreport(report: object) -> None:
    """Write what came of a test at once, so that a crash later on takes nothing away."""
    outcome = getattr(report, "outcome", "")
    if getattr(report, "when", "") != "call" and outcome == "passed":
        return
    crash = getattr(getattr(report, "longrepr", None), "reprcrash", None)
    said = getattr(crash, "message", "") if outcome == "failed" else ""
    lines = [line for line in str(said).splitlines() if line.strip()]
    name = str(getattr(report, "nodeid", "")).partition("::")[2]
    line = json.dumps({"test": name, "outcome": outcome, "said": " | ".join(lines[:4])[:400]})
    with open(os.environ["OWN_TESTS_RESULTS"], "a", encoding="utf-8") as file:
        file.write(line + "\n")


# --- outside ---


def run(path: Path, plugin: str, devices: int, target: str) -> list[Result]:
    """Run a file and return what came of its tests."""
    with tempfile.TemporaryDirectory(prefix="own-tests-") as folder:
        written = Path(folder, "results")
        written.touch()
        here = str(Path(__file__).parent)
        environment = {
            **os.environ,
            "OWN_TESTS_RESULTS": str(written),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [here, str(path.parent), os.environ.get("PYTHONPATH", "")])),
        }
        command = [sys.executable, "-m", "torchferry", "rehearse", "-t", target, "--plugin", plugin]
        command += ["--devices", str(devices), "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", Path(__file__).stem, str(path)]
        with subprocess.Popen(
            command,
            cwd=path.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=LIMIT)
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code, said = -1, f"not ended after {LIMIT} s"
        rows = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    results = [Result(path.name, row["test"], row["outcome"], row["said"]) for row in rows]
    if code not in {0, 1, 5}:  # pytest: all passed, some failed, none found
        results.append(Result(path.name, "", "crashed", _end(said, code)))
    return results


def _end(said: str, code: int) -> str:
    lines = [line.strip() for line in said.splitlines() if "Error" in line or "error" in line]
    return f"exit code {code}: {(lines or said.splitlines() or [''])[-1]}"[:400]


def summary(results: list[Result]) -> str:
    """Return the counts by file, and the failures by what they say, without numbers."""
    by_file: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    by_text: dict[str, list[str]] = collections.defaultdict(list)
    for each in results:
        by_file[each.file][each.outcome] += 1
        if each.outcome in {"failed", "crashed"}:
            by_text[_NUMBERS.sub("#", each.said)[:200]].append(f"{each.file}::{each.test}")
    lines = [f"{file:48} {dict(counts)}" for file, counts in sorted(by_file.items())]
    lines += [""]
    for text, tests in sorted(by_text.items(), key=lambda item: -len(item[1])):
        lines += [f"{len(tests):4} {text}", *(f"       {test}" for test in tests[:6])]
    total = sum(by_file.values(), collections.Counter[str]())
    ran = total["passed"] + total["failed"]
    return "\n".join(
        [*lines, "", f"{len(by_file)} files: {dict(total)}; {total['passed'] / max(1, ran):.1%} of what ran"]
    )


def load(path: Path) -> list[Result]:
    """Return the results of a file."""
    return [Result(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Run the files and sum up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=Path, nargs="?")
    parser.add_argument("--plugin", default="installed", help="`installed`, or a wheel")
    parser.add_argument("--target", default="npu")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("own-tests.jsonl"))
    parser.add_argument("--read", type=Path, help="run nothing: sum up these results")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="files, by parts of their names")
    options = parser.parse_args()
    if options.read:
        print(summary(load(options.read)))
        return
    if options.tests is None:
        parser.error("TESTS is missing")
    paths = sorted(options.tests.glob("test_*.py"))
    wanted = [path for path in paths if not options.only or any(name in path.name for name in options.only)]
    names = {path.name for path in wanted}
    results = [each for each in load(options.results) if each.file not in names] if options.results.exists() else []
    plugin = str(Path(options.plugin).resolve()) if options.plugin.endswith(".whl") else options.plugin
    for path in wanted:
        found = run(path.resolve(), plugin, options.devices, options.target)
        results += found or [Result(path.name, "", "skipped", "no test")]
        options.results.write_text("".join(json.dumps(asdict(each)) + "\n" for each in results), encoding="utf-8")
        print(path.name, dict(collections.Counter(each.outcome for each in found)), flush=True)
    print(summary(results))


if __name__ == "__main__":
    main()
