"""Small CUDA programs in every way that torchferry knows: migrated, portable, and unchanged under `torchferry run`.

    python benchmarks/rehearsal/ways.py [--targets NAME ...] [--wheel WHEEL] [--programs NAME ...] [--keep DIR]

Each probe of `probes/`, and each form of arguments of `argument_forms.py`, is right on CUDA. In each way, and on each
plugin, it does the same: it passes with the same result on the same device, or it raises and was told. Told is what
`migrate` reports at the probe's own lines as not safe, so that probes share no helpers, or what torchferry raises as
its own error. A probe that raises untold, and two ways that disagree, are faults, unless `expected_ways.py` says why.
What was not tried is named at the end: renamed callables without a value for a parameter, and a plugin not at hand.
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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.rehearsal.argument_forms import not_called, program
from benchmarks.rehearsal.expected_ways import EXPECTED
from torchferry.backends.registry import built_in, load
from torchferry.backends.target import Target

PROBES = Path(__file__).with_name("probes")
PROBING = Path(__file__).with_name("probing.py")
SWEPT = "argument_forms"
WAYS = ("migrated", "portable", "run")
TOLD, RAISES = "told", "raises"
NOTED = " (told)"
"""Ends what passes where a report says that something is left: it may be another result than it is meant to be."""
OWN_ERRORS = ("torchferry: ", "not rehearsed", "[rehearsal]", "is not known", "NotOnThisDeviceError: ")
"""What stands in each error that is torchferry's own: the redirect's, the simulated plugin's, the device manager's."""


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
    card, output = place / "card", place / "outcomes.json"
    if not output.exists():
        _run(source, setting, way, place)
    told = [] if way == "run" else left(card)
    results: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    spans = _spans(card / source.name)  # the report speaks of what was written
    return {name: _word(result, told, spans.get(name, (0, 0))) for name, result in results.items()}


def _word(result: dict[str, Any], told: list[tuple[int, int]], span: tuple[int, int]) -> str:
    is_told = any(first <= span[1] and last >= span[0] for first, last in told)
    if "passes" in result:
        return json.dumps(result["passes"]) + (NOTED if is_told else "")
    error: str = result[RAISES]
    return f"{TOLD if is_told or any(own in error for own in OWN_ERRORS) else RAISES}: {error}"


def _spans(source: Path) -> dict[str, tuple[int, int]]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return {node.name: (node.lineno, node.end_lineno or 0) for node in tree.body if isinstance(node, ast.FunctionDef)}


def _run(source: Path, setting: Setting, way: str, place: Path) -> None:
    """Bring a program to the card, and run its probes there."""
    shutil.rmtree(place, ignore_errors=True)
    original, card = place / "original", place / "card"
    original.mkdir(parents=True)
    shutil.copy(source, original / source.name)
    python = [sys.executable, "-m", "torchferry"]
    if way == "run":
        shutil.copytree(original, card)
    else:
        migrate = [*python, "migrate", str(original), "-t", setting.target, "--out", str(card)]
        migrate += ["--style", "portable"] if way == "portable" else []
        _call([*migrate, "-f", "json", "-o", str(card.with_suffix(".json"))], place)
    rehearse = [*python, "rehearse", "-t", setting.target, "--plugin", setting.plugin, "--"]
    redirected = [*python, "run", "-t", setting.target, "--"] if way == "run" else []
    _call([*rehearse, *redirected, sys.executable, str(PROBING), source.name, str(place / "outcomes.json")], card)
    if not (place / "outcomes.json").exists():
        raise RuntimeError(f"{place}: no outcomes; see output.txt")


def left(card: Path) -> list[tuple[int, int]]:
    """Return the lines at which the report of a migration says that something is left."""
    findings = json.loads(card.with_suffix(".json").read_text(encoding="utf-8"))["findings"]
    return [(each["line"], each["end_line"]) for each in findings if each["grade"] in {"manual", "unsafe"}]


def _call(command: list[str], folder: Path) -> None:
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    more = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore", "PYTHONPATH": paths}
    environment = {**os.environ, **more}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1800
    )
    with (folder / "output.txt").open("a", encoding="utf-8") as log:
        log.write(done.stdout + done.stderr)


def excused(probe: str, setting: str, way: str, word: str) -> bool:
    """Whether a row of `EXPECTED` says that an outcome is right as it is."""
    return any(row.holds(probe, setting, way, word) for row in EXPECTED)


def faults(setting: str, by_way: dict[str, dict[str, str]]) -> Iterator[tuple[str, bool, dict[str, str]]]:
    """Yield each probe whose ways disagree, or that raises untold, whether that is expected, and what each way did."""
    for probe in next(iter(by_way.values())):
        did = {way: results.get(probe, "absent") for way, results in by_way.items()}
        if not _disagree(word.removesuffix(NOTED) for word in did.values()):
            continue
        did = {
            way: f"{TOLD}: {word.removesuffix(NOTED)}" if word.endswith(NOTED) else word for way, word in did.items()
        }
        if _disagree(did.values()):
            yield probe, not _disagree(word for way, word in did.items() if not excused(probe, setting, way, word)), did


def _disagree(outcomes: Iterable[str]) -> bool:
    words = {word.partition(":")[0] if word.startswith((TOLD, RAISES)) else word for word in outcomes}
    return len(words) > 1 or RAISES in words


def shown(found: Iterable[tuple[str, dict[str, str]]]) -> Iterator[str]:
    """Yield lines about faults: forms of one callable that end alike are one."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for probe, did in found:
        words = tuple(f"    {way}: {' '.join(word.split())[:200]}" for way, word in did.items())
        alike.setdefault((probe.partition("__")[0], *words), []).append(probe.partition("__")[2])
    for lines, forms in alike.items():
        yield f"  {lines[0]} {' '.join(forms)}".rstrip()
        yield from lines[1:]


def main() -> int:
    """Run the probes, and print what disagrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", nargs="+", default=list(built_in()))
    parser.add_argument("--wheel", type=Path, help="a vendor's own plugin, beside the simulated ones")
    parser.add_argument("--programs", nargs="+", help="these alone")
    parser.add_argument("--keep", type=Path, help="folder for the runs; what is there already is not run again")
    options = parser.parse_args()
    runs = wrong = right = 0
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
                found = list(faults(setting.name, by_way))
                unexpected = [(probe, did) for probe, expected, did in found if not expected]
                count = len(by_way["run"])
                runs += count * len(WAYS)
                wrong += len(unexpected)
                right += len(found) - len(unexpected)
                print(
                    f"{setting.name}, {source.stem}: {count} probes, {len(found)} differ, "
                    f"{len(unexpected)} of them unexpectedly"
                )
                print(*shown(unexpected), sep="\n", flush=True)
    for name in options.targets:
        print(f"not called on {name}: {', '.join(not_called(Target.named(name))) or 'none'}")
    if options.wheel is None:
        print("not tried: a vendor's own plugin (no --wheel)")
    print(f"{runs} runs of probes; {wrong} differ unexpectedly, {right} as expected")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
