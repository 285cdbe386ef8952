"""Real programs on the simulated card: migrated by torchferry, rehearsed, and laid beside the original on the CPU.

    python benchmarks/rehearsal/realworld.py [--unchanged | --portable | --transfer] [--target TARGET]
        [--plugin PLUGIN] [--corpus DIR] [--keep DIR] [NAME ...]

DIR (or $TORCHFERRY_CORPUS) has checkouts named `owner+name`; nothing is fetched, and what is not there is skipped.
Models and data are tiny and random. Each case is a copy of a repository's folder, or one of the programs in `cases/`;
`torchferry migrate` rewrites it, and `torchferry rehearse` runs what comes out. The original runs on the CPU with the
same seeds. Every optimizer step's norm of the parameters, the parameters after the last step, and what a driver keeps
must agree to the rounding of float32, or to the case's own tolerance where it computes in half precision. With
`--unchanged` nothing is rewritten, and the copy runs under `torchferry run` instead; with `--portable` it is rewritten
for every device (`--style portable`), and the target `cpu` runs what comes out on the CPU. With `--transfer` nothing is
rewritten either, and the program begins with the vendor's own redirect. `--plugin installed`, or a wheel, rehearses
with the vendor's own plugin on the simulated driver; `judges.py` lays both beside each other.

The edits of a case are made before the migration, so both runs have them; a `reference` edit lets the original, which
asks for CUDA by name, run on the CPU. A torchvision wheel built for CUDA needs its libraries preloaded beside torch's
CPU wheel; take the one of the CPU index.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch

from benchmarks.rehearsal.cases.table import ANOTHER_WAY, PORTABLE, REFUSED, Case, Edit, cases
from torchferry.rehearsal.event_kinds import FAILS_ON_CARD

CASES = Path(__file__).with_name("cases")
RECORD = CASES / "record.py"
ROW = "{:<26} {:<6} {:>9} {:>10} {:>8} {:>7} {:>7}  {}"


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    difference: float
    verdict: str
    seconds: tuple[float, float]
    values: int
    devices: str = ""
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Way:
    """How a program comes to the card.

    Attributes:
        name: What it is called in a table.
        rewritten: Whether `torchferry migrate` rewrites it.
        portable: Whether it is rewritten for every device.
        redirected: Whether `torchferry run` runs it.
        transferred: Whether it begins with the vendor's own redirect.
    """

    name: str
    rewritten: bool = False
    portable: bool = False
    redirected: bool = False
    transferred: bool = False

    def known_to_fail(self, case: Case) -> str:
        """Return what the output of a program rightly says that cannot work; empty where it works."""
        if self.rewritten and not self.portable:
            return case.fails
        known = PORTABLE if self.portable else REFUSED if self.redirected else {}
        return known.get((case.name, case.target), "")


MIGRATED, TO_EVERY = Way("migrated", rewritten=True), Way("portable", rewritten=True, portable=True)
UNCHANGED, TRANSFERRED = Way("torchferry run", redirected=True), Way("transfer_to_npu", transferred=True)
_VENDORS_REDIRECT = "torch_npu.contrib.transfer_to_npu"


class DifferentError(Exception):
    """The case does not hold."""


def absent(case: Case, corpus: Path | None) -> str:
    """Return why a case cannot run here, or an empty string."""
    for package in case.packages:
        if importlib.util.find_spec(package) is None:
            return f"no package {package}"
    if (CASES / case.source).is_dir():
        return ""
    if corpus is None:
        return "no --corpus"
    return "" if (corpus / case.source).is_dir() else f"no {case.source} in the corpus"


def run(case: Case, corpus: Path | None, folder: Path, way: Way, plugin: str = "simulated") -> Outcome:
    """Run a case both ways: on the CPU as it is, and on the card.

    Raises:
        DifferentError: it fails, or the results are not the same.
    """
    lay_out(case, corpus, folder)
    first = on_the_cpu(case, folder)
    done = on_the_card(case, folder, way, plugin)
    return replace(done, seconds=(first, done.seconds[1]))


def lay_out(case: Case, corpus: Path | None, folder: Path) -> None:
    """Copy the program and make its inputs.

    Raises:
        DifferentError: the checkout is another one than the case's edits are for.
    """
    own = CASES / case.source
    source = own if own.is_dir() else (corpus or folder) / case.source
    original, there = folder / "original", folder / "reference"
    shutil.copytree(source / case.part, original, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    edit_files(original, case.edits)
    shutil.copytree(original, there)
    edit_files(there, case.reference)
    (folder / "data").mkdir()
    if case.prepare is not None:
        case.prepare(folder / "data")


def _place(folder: Path, name: str) -> Path:
    """Make the folder of one run, in which what `prepare` made is found too."""
    place = folder / name
    for part in ("kept", "out"):
        (place / part).mkdir(parents=True)
    for path in (folder / "data").iterdir():
        (place / "out" / path.name).symlink_to(path)
    return place


def on_the_cpu(case: Case, folder: Path) -> float:
    """Run the original on the CPU; return its seconds.

    Raises:
        DifferentError: it fails.
    """
    began = time.perf_counter()
    done = _run([], case, folder / "reference", _place(folder, "cpu"), "--reference")
    if done.returncode:
        raise DifferentError(f"the original fails on the CPU: {_last(done)}")
    return time.perf_counter() - began


def on_the_card(case: Case, folder: Path, way: Way, plugin: str, name: str = "card") -> Outcome:
    """Run a case on the card, and compare what it kept with what the CPU's run kept.

    Args:
        case: The program.
        folder: Where `lay_out` put it and `on_the_cpu` ran.
        way: How it comes to the card.
        plugin: What `torchferry rehearse --plugin` takes.
        name: Folder of this run, below `folder`.

    Raises:
        DifferentError: it fails, or the results are not the same.
    """
    program = folder / f"{name}-program"
    if way.rewritten:
        _migrate(case, folder / "original", program, way.portable)
    else:
        shutil.copytree(folder / "original", program)
    report = folder / f"{name}.json"
    devices = ["--devices", str(max(1, case.ranks))]
    rehearse = [sys.executable, "-m", "torchferry", "rehearse", "-t", case.target, "--plugin", plugin, *devices]
    rehearse += [*case.options, "--summary-file", str(report), "--"]
    rehearse += [sys.executable, "-m", "torchferry", "run", "-t", case.target, "--"] if way.redirected else []
    more = ("--first", _VENDORS_REDIRECT) if way.transferred else ()
    on_card = case.target != "cpu"
    began = time.perf_counter()
    done = _run(
        rehearse if on_card else [], case, program, _place(folder, name), *more, *(() if on_card else ("--reference",))
    )
    seconds = (0.0, time.perf_counter() - began)
    summary = json.loads(report.read_text()) if report.is_file() else {}
    verdict = _findings(summary) if on_card else "not rehearsed"
    fails = way.known_to_fail(case)
    if fails:
        if fails not in done.stdout + done.stderr:
            raise DifferentError(f"it should end with {fails!r}: {_last(done)}")
        if way.redirected and not done.returncode:
            raise DifferentError(f"it says {fails!r}, and ends well")
        return Outcome(0.0, f"rightly ends with: {fails}", seconds, 0, "fails")
    if done.returncode:
        raise DifferentError(f"{_last(done)}; {verdict}")
    if on_card and not summary.get("operators"):
        raise DifferentError("nothing ran on the device")
    difference, values, where = compare(folder / "cpu", folder / name, case.image)
    if difference > case.tolerance:
        raise DifferentError(f"differs by {difference:.1e}; {verdict}")
    where = where or (f"{sum(summary['operators'].values())} ops" if on_card else "on the CPU")
    refused = would_fail(summary)
    return Outcome(difference, verdict, seconds, values, "would fail" if refused else where, refused)


def would_fail(summary: dict[str, Any]) -> tuple[str, ...]:
    """Return what a summary says would fail on the card, in the program's own lines and libraries."""
    return tuple(
        sorted(
            {
                f"{event['kind']} {event['subject']}"
                for event in summary.get("events", ())
                if event["kind"] in FAILS_ON_CARD and event["file"] != str(RECORD)
            }
        )
    )


def edit_files(folder: Path, edits: Iterable[Edit]) -> None:
    """Edit files of a folder in place.

    Raises:
        DifferentError: a file has not the text that is to be edited.
    """
    for edit in edits:
        for path in sorted(folder.glob(edit.file)):
            text = path.read_text(encoding="utf-8")
            if edit.old not in text:
                raise DifferentError(f"{edit.file} has no {edit.old!r}")
            path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")


def _migrate(case: Case, original: Path, migrated: Path, portable: bool) -> None:
    target = "npu" if case.target == "cpu" else case.target  # portable code is the same for all
    command = [sys.executable, "-m", "torchferry", "migrate", str(original), "-t", target, "--out", str(migrated)]
    command += ["--style", "portable"] if portable else []
    command += ["--unsafe-fixes"] if case.unsafe else []
    report = migrated.with_suffix(".json")
    done = subprocess.run(
        [*command, "-f", "json", "-o", str(report)], capture_output=True, text=True, check=False, env=_environment()
    )
    if not migrated.is_dir():
        shutil.copytree(original, migrated)  # there was nothing to rewrite
    if done.returncode > 1:
        raise DifferentError(f"torchferry migrate ends with {done.returncode}: {done.stderr.strip()[-200:]}")


def _run(before: list[str], case: Case, root: Path, into: Path, *more: str) -> subprocess.CompletedProcess[str]:
    reference = "--reference" in more
    places = {"data": into.parent / "data", "out": into / "out", "root": root}
    words = f"{case.command} {case.on_the_cpu if reference else ''}".format(**places).split()
    environment = {
        **_environment(),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")])),
    }
    # an installed plugin finds no driver beside the original
    environment.update({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if reference else dict(case.environment))
    record = [str(RECORD), "--into", str(into / "kept"), "--steps", str(case.steps), *more]
    record += [str(CASES / case.driver)] if case.driver else []
    python = [sys.executable]
    if case.ranks:
        python += ["-m", "torch.distributed.run", "--nproc_per_node", str(case.ranks)]
        python += ["--master_port", str(_free_port())]
    command = [*python, *record, *words]
    done = subprocess.run(
        [*before, *command], cwd=root / case.cwd.format(**places), env=environment, capture_output=True, text=True,
        check=False, timeout=900,
    )  # fmt: skip
    (into / "output.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return done


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _environment() -> dict[str, str]:
    # deepspeed reads what the toolkit's set_env.sh sets
    own = {
        "ASCEND_HOME_PATH": "/usr/local/Ascend/ascend-toolkit/latest",
        "OMP_NUM_THREADS": "1",
        "WANDB_MODE": "disabled",
        "MPLBACKEND": "agg",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return {**os.environ, **own, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}


def _findings(summary: dict[str, Any]) -> str:
    """Return what would fail on the card, and what nobody knows, without the lines of the recorder."""
    if not summary:
        return "no summary"
    if not summary["processes_on_device"]:
        return "nothing ran on the device"
    found: dict[str, int] = {}
    for event in summary["events"]:
        quiet = event["kind"] in {"to-device", "to-host", "synchronisation", "collective", "noted-dtype"}
        if not quiet and event["file"] != str(RECORD):
            text = f"{event['kind']} {event['subject']} {Path(event['file']).name}:{event['line']}"
            found[text] = found.get(text, 0) + event["times"]
    listed = [f"{text} x{times}" for text, times in sorted(found.items())]
    return "; ".join(listed[:6]) + (f"; and {len(listed) - 6} more" if len(listed) > 6 else "") or "none"


def _last(done: subprocess.CompletedProcess[str]) -> str:
    said = [re.sub(r"^\[rank\d+\]: ", "", line) for line in (done.stdout + "\n" + done.stderr).splitlines()]
    lines = [line for line in said if line.strip()]
    errors = [
        line.strip()
        for line in lines
        if "Error" in line and not line.startswith((" ", "torchferry", "raise ")) and "ChildFailed" not in line
    ]
    return (errors or lines or [f"exit code {done.returncode}"])[-1][:200]


def compare(expected: Path, found: Path, image: str = "") -> tuple[float, int, str]:
    """Return the greatest difference, how many values were compared, and the device of the parameters.

    Raises:
        DifferentError: the runs did not keep the same things.
    """
    right, value = _kept(expected / "kept"), _kept(found / "kept")
    if not right or right.keys() != value.keys():
        raise DifferentError(
            f"kept {len(value)} values instead of {len(right)}: {sorted(right.keys() ^ value.keys())[:4]}"
        )
    greatest, count, devices = 0.0, 0, set()
    for name, one in right.items():
        if name.endswith(":devices"):
            devices.update(value[name])
            continue
        a, b = (torch.as_tensor(each).double().flatten() for each in (one, value[name]))
        if a.shape != b.shape:
            raise DifferentError(f"{name} has {b.numel()} elements instead of {a.numel()}")
        if not a.isfinite().all():
            raise DifferentError(f"the original is not finite, which compares with nothing: {name}")
        greatest, count = max(greatest, _relative(a, b)), count + a.numel()
    if image:
        greatest, count = max(greatest, _images(expected / "out", found / "out", image)), count + 1
    return greatest, count, "+".join(sorted(devices))


def _kept(folder: Path) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for path in sorted(folder.glob("kept-*.pt")):
        kept.update(torch.load(path, weights_only=False))
    return kept


def _relative(right: torch.Tensor, value: torch.Tensor) -> float:
    if right.numel() == 0:
        return 0.0
    if not value.isfinite().all():
        return float("inf")
    return float((right - value).abs().max() / right.abs().max().clamp_min(1e-12))


def _images(expected: Path, found: Path, pattern: str) -> float:
    import numpy as np
    from PIL import Image  # type: ignore[import-not-found, unused-ignore]

    pairs = list(zip(sorted(expected.glob(pattern)), sorted(found.glob(pattern)), strict=True))
    if not pairs:
        raise DifferentError(f"no image {pattern}")
    images = [[np.asarray(Image.open(path), dtype=np.float32) for path in pair] for pair in pairs]
    return max(float(np.abs(right - value).mean()) / 255 for right, value in images)


def chosen(way: Way, names: Sequence[str] = (), target: str = "") -> list[Case]:
    """Return the cases with one of the parts of names, each once on the target where one is named."""
    wanted = [case for case in cases() if not names or any(name in case.name for name in names)]
    if way.rewritten:
        wanted = [case for case in wanted if not case.unchanged_alone]
    if target:
        own = [case for case in wanted if case.target == target]
        others = [case for case in wanted if not (case.environment or (way is MIGRATED and case.fails))]
        wanted = others + own  # its own case comes last, and so counts
        there = [case if case.target == target else replace(case, target=target, fails="") for case in wanted]
        wanted = list({case.name: case for case in there}.values())
    return wanted


def main() -> int:
    """Run the cases that are there and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", type=Path, default=os.environ.get("TORCHFERRY_CORPUS"))
    parser.add_argument("--unchanged", action="store_true", help="rewrite nothing, and run it under `torchferry run`")
    parser.add_argument("--portable", action="store_true", help="rewrite it for every device")
    parser.add_argument("--transfer", action="store_true", help="rewrite nothing; it begins with the vendor's redirect")
    parser.add_argument("--plugin", default="simulated", help="`installed` or a wheel, for the vendor's own plugin")
    parser.add_argument("--target", help="run every case on this target, once")
    parser.add_argument("--keep", type=Path, help="folder for the copies and outputs, in place of a temporary one")
    parser.add_argument("names", nargs="*", help="parts of the names of the cases that are wanted")
    arguments = parser.parse_args()
    corpus = Path(arguments.corpus) if arguments.corpus else None
    ways = {"unchanged": UNCHANGED, "portable": TO_EVERY, "transfer": TRANSFERRED}
    way = next((way for option, way in ways.items() if getattr(arguments, option)), MIGRATED)
    wanted = chosen(way, arguments.names, arguments.target)
    print(ROW.format("case", "target", "result", "difference", "values", "cpu s", "card s", "findings"), flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="realworld-") as name:
        for case in wanted:
            reason = absent(case, corpus)
            if case.target == "cpu" and case.name in ANOTHER_WAY:
                reason = "without a card it goes another way"
            if reason:
                print(ROW.format(case.name, case.target, "skipped", "", "", "", "", reason), flush=True)
                continue
            folder = (arguments.keep or Path(name)) / f"{case.name.replace(' ', '-').replace('/', '-')}-{case.target}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                done = run(case, corpus, folder, way, arguments.plugin)
            except (DifferentError, subprocess.TimeoutExpired) as error:
                wrong += 1
                print(ROW.format(case.name, case.target, "WRONG", "", "", "", "", error), flush=True)
                continue
            first, second = (f"{seconds:.1f}" for seconds in done.seconds)
            result = done.devices or "equal"
            print(
                ROW.format(
                    case.name, case.target, result, f"{done.difference:.1e}", done.values, first, second, done.verdict
                ),
                flush=True,
            )
            if not arguments.keep:
                shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
