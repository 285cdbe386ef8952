"""Real programs on both judges: the vendor's own plugin on the simulated driver, and the simulated plugin.

    python benchmarks/rehearsal/judges.py --plugin installed|WHEEL [--corpus DIR] [--target TARGET]
        [--keep DIR [--ways WAY ...]] [NAME ...]
    python benchmarks/rehearsal/judges.py --pages      # only write the pages anew from the results

Runs every program of `realworld.py` that is there: once on the CPU, then migrated on each judge, and, as it is, under
`torchferry run` and under the vendor's own redirect with the vendor's plugin. What each run kept must be what the CPU's
kept, and the judges must say the same of what would fail on the card. Writes what it measured into `judges.json` beside
this file and into `plugin-versions.md` of both languages. What is absent is skipped, and its last result stays. With
`--ways` only some of the ways are run again, beside the CPU's run that DIR has from before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.rehearsal import realworld
from benchmarks.rehearsal.cases.table import Case
from benchmarks.rehearsal.realworld import MIGRATED, TRANSFERRED, UNCHANGED, DifferentError, Outcome, Way

RESULTS = Path(__file__).with_suffix(".json")
PAGES = {language: Path(__file__).parents[2] / "docs" / language / "plugin-versions.md" for language in ("en", "zh")}
BLOCK = ("<!-- measured: written by make judges -->", "<!-- end of programs -->")

RUNS: dict[str, tuple[Way, bool]] = {
    "wheel": (MIGRATED, True),
    "simulated": (MIGRATED, False),
    "run": (UNCHANGED, True),
    "transfer": (TRANSFERRED, True),
}
"""How each program runs, and whether with the vendor's own plugin."""


@dataclass
class Row:
    """What came of a program.

    Attributes:
        name: The program.
        results: For each of `RUNS`: the greatest difference from the CPU, as text, or why it does not hold.
        refused: For each of them that ended well: what would fail on the card.
        seconds: For the CPU and each of them.
    """

    name: str
    results: dict[str, str] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def judges(self) -> str:
        """Whether both judges say the same of the migrated program: "agree", or what differs."""
        if not {"wheel", "simulated"} <= self.results.keys():
            return ""
        ended = [self.results[judge][:1].isdigit() for judge in ("wheel", "simulated")]
        if ended[0] != ended[1]:
            return "one ends and one fails"
        apart = set(self.refused.get("wheel", [])) ^ set(self.refused.get("simulated", []))
        return f"differ: {', '.join(sorted(apart))}" if apart else "agree"


def measure(case: Case, corpus: Path | None, plugin: str, folder: Path) -> Row:
    """Run a program in every way."""
    row = Row(case.name)
    try:
        realworld.lay_out(case, corpus, folder)
        row.seconds["cpu"] = round(realworld.on_the_cpu(case, folder), 1)
    except (DifferentError, subprocess.TimeoutExpired) as error:
        row.results["cpu"] = str(error)
        return row
    return run(case, plugin, folder, row, tuple(RUNS))


def measure_again(case: Case, plugin: str, folder: Path, ways: Sequence[str]) -> Row:
    """Run a program in some of the ways, beside what the CPU's run left in the folder."""
    row = next((row for row in load() if row.name == case.name), Row(case.name))
    for name in ways:
        for path in (folder / name, folder / f"{name}-program"):
            shutil.rmtree(path, ignore_errors=True)
        for table in (row.results, row.refused, row.seconds):
            table.pop(name, None)
    return run(case, plugin, folder, row, ways)


def run(case: Case, plugin: str, folder: Path, row: Row, ways: Sequence[str]) -> Row:
    """Run a program in these ways, and add what came of them."""
    for name in ways:
        way, vendors = RUNS[name]
        if way.rewritten and case.unchanged_alone:
            continue
        try:
            done = realworld.on_the_card(case, folder, way, plugin if vendors else "simulated", name)
        except (DifferentError, subprocess.TimeoutExpired) as error:
            row.results[name] = str(error).partition("; ")[0][:120]
            continue
        row.results[name] = result(done)
        row.refused[name] = list(done.refused)
        row.seconds[name] = round(done.seconds[1], 1)
    return row


def result(done: Outcome) -> str:
    """Return an outcome in a word."""
    return "0" if done.difference == 0 else f"{done.difference:.0e}"


# --- results and pages ---


def load() -> list[Row]:
    return [Row(**each) for each in json.loads(RESULTS.read_text(encoding="utf-8"))] if RESULTS.exists() else []


def save(fresh: Row) -> None:
    """Put a row in the place of the one that was measured before."""
    rows = [fresh if row.name == fresh.name else row for row in load()]
    if fresh.name not in {row.name for row in rows}:
        rows.append(fresh)
    order = [case.name for case in realworld.chosen(UNCHANGED)]
    rows.sort(key=lambda row: order.index(row.name) if row.name in order else len(order))
    RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


WORDS = {
    "en": {
        "head": "program | wheel | simulated | verdicts | unchanged, `torchferry run` | unchanged, `transfer_to_npu`",
        "0": "equal",
    },
    "zh": {
        "head": "程序 | 官方 wheel | 模拟插件 | 结论 | 不改动，`torchferry run` | 不改动，`transfer_to_npu`",
        "0": "完全一致",
        "agree": "一致",
    },
}


def table(rows: list[Row], language: str) -> str:
    """Return the results as a table of Markdown."""
    words = WORDS[language]
    lines = [f"| {words['head']} |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row.results.get(name, "") for name in ("wheel", "simulated")]
        cells += [row.judges, *(row.results.get(name, "") for name in ("run", "transfer"))]
        shown = [words.get(cell, cell).replace("|", "\\|") for cell in cells]
        lines.append(f"| {row.name} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def write_pages(rows: list[Row]) -> None:
    """Write the tables between the marks of the two pages."""
    for language, page in PAGES.items():
        before, begin, rest = page.read_text(encoding="utf-8").partition(BLOCK[0])
        _, end, after = rest.partition(BLOCK[1])
        page.write_text(f"{before}{begin}\n\n{table(rows, language)}\n\n{end}{after}", encoding="utf-8")


def main() -> int:
    """Run the programs that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", default="installed", help="`installed`, or a wheel")
    parser.add_argument("--target", default="npu")
    parser.add_argument("--corpus", type=Path, default=os.environ.get("TORCHFERRY_CORPUS"))
    parser.add_argument("--keep", type=Path, help="folder for the copies and outputs, in place of a temporary one")
    parser.add_argument("--ways", nargs="+", choices=list(RUNS), help="run these alone, beside the CPU's run in --keep")
    parser.add_argument("--pages", action="store_true", help="run nothing: write the pages from the results")
    parser.add_argument("names", nargs="*", help="parts of the names of the programs that are wanted")
    options = parser.parse_args()
    corpus = Path(options.corpus) if options.corpus else None
    wrong = False
    with tempfile.TemporaryDirectory(prefix="judges-") as place:
        for case in [] if options.pages else realworld.chosen(UNCHANGED, options.names, options.target):
            reason = realworld.absent(case, corpus)
            if reason:
                print(f"{case.name}: skipped: {reason}", flush=True)
                continue
            folder = (options.keep or Path(place)) / case.name.replace(" ", "-").replace("/", "-")
            if options.ways and (folder / "cpu").is_dir():
                row = measure_again(case, options.plugin, folder, options.ways)
            else:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                row = measure(case, corpus, options.plugin, folder)
            save(row)
            wrong |= row.judges not in {"", "agree"} or not row.results.get("wheel", "0")[:1].isdigit()
            print(f"{row.name}: {row.results} {row.judges} {row.refused} {row.seconds}", flush=True)
            if not options.keep:
                shutil.rmtree(folder)
    write_pages(load())
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
