"""Plants slowdowns in programs, records them, and asks `profile compare` and `advise` what is wrong.

    python benchmarks/profiling/planted.py [--out FOLDER] [--only TEXT]

Prints a Markdown table: for each slowdown and model the first thing that `profile compare` says of the run beside the
clean one, the first piece of advice, and whether these are right. Everything runs on the CPU; what needs a card that
lacks an operator is rehearsed. One run of each: the slowdowns are large, and no time is claimed. The clean programs
have to get no advice, for a target that has nothing of its own in place of what they use.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.profiling.planted_programs import MODELS, SLOWDOWNS, PlantedModel, Slowdown, program

_TARGET = "npu"
_NOTHING_BETTER = "musa"
"""A target without a fused optimizer, on which these programs use what is fast."""


def torchferry(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of torchferry in a folder."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHFERRY_LANG": "en"}
    command = [sys.executable, "-m", "torchferry", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def recorded(folder: Path, text: str, *, rehearsed: bool) -> Path:
    """Write a program into a folder of its own, record it, and return the folder; one that is there is taken."""
    if not (folder / "trace").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "train.py").write_text(text, encoding="utf-8")
        on = ("-t", _TARGET) if rehearsed else ()
        device = _TARGET if rehearsed else "cpu"
        options = ("--active", "3", "--out", "trace")
        done = torchferry("profile", *on, *options, "--", sys.executable, "train.py", device, folder=folder)
        if done.returncode != 0:
            raise SystemExit(f"{folder}: {done.stderr}")
    return folder


def first_of_compare(base: Path, planted: Path, *, force: bool) -> str:
    """Return the first thing that `profile compare` says: why it refuses, else the first cause, else the verdict."""
    words = ["profile", "compare", str(base / "trace"), str(planted / "trace"), "-f", "json"]
    done = torchferry(*words, *(["--force"] if force else []), folder=planted)
    if done.returncode == 2:
        return done.stderr.splitlines()[0]
    document = json.loads(done.stdout)
    return str(document["causes"][0]) if document["causes"] else "nothing"


def all_of_advise(folder: Path, target: str) -> list[tuple[str, str]]:
    """Return the kind and the evidence of each piece of advice."""
    done = torchferry("advise", "-t", target, "--trace", "trace", "-f", "json", "train.py", folder=folder)
    return [(each["kind"], each["figure"] or "from the code alone") for each in json.loads(done.stdout)["advice"]]


def clean_row(model: PlantedModel, folder: Path) -> tuple[str, bool]:
    """Return the row of a clean program, and whether nothing is said of it."""
    clean = recorded(folder / f"{model.name} clean".replace(" ", "-"), program(model, layout=True), rehearsed=False)
    said = all_of_advise(clean, _NOTHING_BETTER)
    shown = "; ".join(": ".join(each) for each in said) or "nothing"
    return f"| nothing | {model.name} | - | {shown} | {'**advise**' if said else 'neither'} |", not said


def row(model: PlantedModel, slowdown: Slowdown, folder: Path) -> tuple[str, bool]:
    """Return the row of one slowdown in one model, and whether it was named first."""
    layout = not slowdown.rehearsed
    base = recorded(folder / f"{model.name} {'rehearsed' if slowdown.rehearsed else 'clean'}".replace(" ", "-"),
                    program(model, layout=layout), rehearsed=slowdown.rehearsed)  # fmt: skip
    place = folder / f"{model.name} {slowdown.name}".replace(" ", "-").replace(",", "")
    planted = recorded(place, program(model, slowdown, layout=layout), rehearsed=slowdown.rehearsed)
    compared = first_of_compare(base, planted, force=slowdown.rehearsed)
    kind, figure = next(iter(all_of_advise(planted, slowdown.target)), ("nothing", ""))
    by_compare = slowdown.compared in compared
    by_advise = bool(slowdown.advised) and kind == slowdown.advised
    named = " and ".join(name for name, said in (("compare", by_compare), ("advise", by_advise)) if said)
    cells = (slowdown.name, model.name, compared, f"{kind}: {figure}" if figure else kind, named or "**no**")
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |", by_compare or by_advise


def main() -> None:
    """Plant, record, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, help="keep programs and traces here; those that are there are not made again"
    )
    parser.add_argument("--only", default="", help="only slowdowns with this text in their name")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torchferry-planted-") as name:
        folder = (options.out or Path(name)).absolute()
        print("| planted | model | `profile compare` says first | `advise` says first | named by |")
        print("|---|---|---|---|---|")
        count = right = 0
        for slowdown in SLOWDOWNS:
            for model in MODELS:
                if (slowdown.images and not model.images) or options.only not in slowdown.name:
                    continue
                line, is_named = row(model, slowdown, folder)
                print(line, flush=True)
                count += 1
                right += is_named
        print(f"\n{right} of {count} were named first.")
        clean = [clean_row(model, folder) for model in MODELS]
        print("\n" + "\n".join(line for line, _ in clean))
        print(f"\n{sum(is_right for _, is_right in clean)} of {len(clean)} clean programs got no advice.")


if __name__ == "__main__":
    main()
