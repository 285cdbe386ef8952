"""Small CUDA programs in every way that torchferry knows: migrated, portable, and unchanged under `torchferry run`.

    python benchmarks/rehearsal/ways.py [--targets NAME ...] [--wheel WHEEL] [--programs NAME ...] [--keep DIR]

Each probe of `probes/`, and each form of arguments of `argument_forms.py`, is right on CUDA. In each way, and on each
plugin, it does the same: it passes with the same result on the same device, or it raises and was told. Told is what
`migrate` reports at the probe's own lines as not safe, or what the redirect raises as its own error. A probe that
raises untold, and two ways that disagree, are faults, unless `EXPECTED` says why.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.rehearsal.argument_forms import program
from benchmarks.rehearsal.expected_ways import EXPECTED
from torchferry.backends.registry import built_in, load
from torchferry.backends.target import Target

PROBES = Path(__file__).with_name("probes")
PROBING = Path(__file__).with_name("probing.py")
SWEPT = "argument_forms"
WAYS = ("migrated", "portable", "run")
TOLD, RAISES = "told", "raises"


class Setting(NamedTuple):
    """A target and the plugin that stands for its card.

    Attributes:
        target: The target's name, with a version where the plugin has one.
        plugin: What `torchferry rehearse --plugin` takes.
    """

    target: str
    plugin: str

    @property
    def name(self) -> str:
        """How results name it."""
        return self.target.partition("@")[0] + ("" if self.plugin == "simulated" else " wheel")


def settings(targets: list[str], wheel: Path | None) -> list[Setting]:
    """Return the settings that are at hand."""
    simulated = [Setting(name, "simulated") for name in targets]
    if wheel is None:
        return simulated
    distribution, version = wheel.name.split("-")[:2]
    owner = next(name for name in built_in() if distribution == load(name).PLUGIN)
    return [*simulated, Setting(f"{owner}@{version}", str(wheel))] if owner in targets else simulated


def outcomes(source: Path, setting: Setting, way: str, folder: Path) -> dict[str, str]:
    """Return what came of each probe of a program: a result, `told`, or `raises` with the error."""
    place = folder / f"{setting.name} {way}".replace(" ", "-")
    place.mkdir(parents=True)
    original, card = place / "original", place / "card"
    original.mkdir()
    shutil.copy(source, original / source.name)
    told: list[tuple[int, int]] = []
    if way != "run":
        told = migrated(original, card, setting, way, source.name)
    else:
        shutil.copytree(original, card)
    output = place / "outcomes.json"
    command = [sys.executable, "-m", "torchferry", "rehearse", "-t", setting.target, "--plugin", setting.plugin, "--"]
    command += [sys.executable, "-m", "torchferry", "run", "-t", setting.target, "--"] if way == "run" else []
    command += [sys.executable, str(PROBING), source.name, str(output)]
    done = subprocess.run(
        command, cwd=card, env=_environment(card), capture_output=True, text=True, check=False, timeout=1800
    )
    (place / "output.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    if not output.exists():
        raise RuntimeError(f"{source.name} {setting.name} {way}: {(done.stdout + done.stderr)[-2000:]}")
    results: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    spans = _spans(card / source.name)  # the report speaks of what was written
    return {name: _word(result, told, spans.get(name, (0, 0))) for name, result in results.items()}


def _word(result: dict[str, Any], told: list[tuple[int, int]], span: tuple[int, int]) -> str:
    if "passes" in result:
        return json.dumps(result["passes"])
    error: str = result[RAISES]
    is_told = "torchferry: " in error or any(first <= span[1] and last >= span[0] for first, last in told)
    return f"{TOLD if is_told else RAISES}: {error}"


def _spans(source: Path) -> dict[str, tuple[int, int]]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return {node.name: (node.lineno, node.end_lineno or 0) for node in tree.body if isinstance(node, ast.FunctionDef)}


def migrated(original: Path, card: Path, setting: Setting, way: str, name: str) -> list[tuple[int, int]]:
    """Migrate a folder, and return the lines at which the report says that something is left."""
    report = card.with_suffix(".json")
    command = [sys.executable, "-m", "torchferry", "migrate", str(original), "-t", setting.target, "--out", str(card)]
    command += ["--style", "portable"] if way == "portable" else []
    done = subprocess.run(
        [*command, "-f", "json", "-o", str(report)], capture_output=True, text=True, check=False, env=_environment(card)
    )
    if not (card / name).exists():
        raise RuntimeError(f"{setting.name} {way}: migrate wrote nothing: {done.stdout}{done.stderr}")
    findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    return [(each["line"], each["end_line"]) for each in findings if each["grade"] in {"manual", "unsafe"}]


def _environment(folder: Path) -> dict[str, str]:
    more = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(folder)}
    return {**os.environ, **more}


def faults(by_way: dict[str, dict[str, str]]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield program and probe whose ways disagree, or raise untold, with what each way did."""
    for probe in next(iter(by_way.values())):
        did = {way: results.get(probe, "absent") for way, results in by_way.items()}
        words = {TOLD if word.startswith(TOLD) else word for word in did.values()}
        if len(words) > 1 or any(word.startswith(RAISES) for word in words):
            yield probe, EXPECTED.get(probe, ""), did


def main() -> int:
    """Run the probes, and print what disagrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", nargs="+", default=list(built_in()))
    parser.add_argument("--wheel", type=Path, help="a vendor's own plugin, beside the simulated ones")
    parser.add_argument("--programs", nargs="+", help="these alone")
    parser.add_argument("--keep", type=Path, help="folder for what was migrated, in place of a temporary one")
    options = parser.parse_args()
    wrong = pairs = explained = 0
    with tempfile.TemporaryDirectory(prefix="ways-") as temporary:
        place = options.keep or Path(temporary)
        for setting in settings(options.targets, options.wheel.resolve() if options.wheel else None):
            sources = sorted(PROBES.glob("[a-z]*.py"))
            swept = place / "swept" / setting.name.replace(" ", "-") / f"{SWEPT}.py"
            swept.parent.mkdir(parents=True, exist_ok=True)
            swept.write_text(program(Target.named(setting.target)), encoding="utf-8")
            for source in [*sources, swept]:
                if options.programs and source.stem not in options.programs:
                    continue
                folder = place / source.stem
                by_way = {way: outcomes(source, setting, way, folder) for way in WAYS}
                found = list(faults(by_way))
                pairs += sum(len(results) for results in by_way.values())
                for probe, reason, did in found:
                    explained += bool(reason)
                    wrong += not reason
                    if not reason:
                        print(f"{setting.name} {source.stem} {probe}")
                        for way, word in did.items():
                            print(f"    {way}: {word[:200]}")
                print(f"{setting.name} {source.stem}: {len(by_way['run'])} probes, {len(found)} differ", flush=True)
    print(f"{pairs} runs of probes; {wrong} probes at fault, {explained} explained")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
