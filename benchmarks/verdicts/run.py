"""What `torchferry scan` says of each program beside what a person said who read its code.

    VERDICTS_REPOS=DIR python benchmarks/verdicts/run.py [--target npu|musa] [NAME ...]

`DIR` holds the repositories of `labels/`, each called `owner+name` or `name`: a clone, a bare git directory, or an
unpacked archive. What is not there is skipped. Prints for each kind how many programs are right, wrong and not judged,
and how many blockers are named, with and without the chain that leads to them; then every one that is not right. Labels
that were corrected after the tool had run are counted, and the share is told with the labels as first written too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.verdicts.checkout import AbsentError, materialise, repository_options
from benchmarks.verdicts.labels import SETS, TARGETS, Need, Program, Repository, repositories

COLUMNS = ("programs", "right", "arguable", "wrong", "not judged", "blockers", "named", "with chain")
ROW = "{:<28}" + " {:>10}" * len(COLUMNS)
NOT_FOUND = "not found"


@dataclass(frozen=True)
class Said:
    """What the report says of one program, in the words of the labels."""

    verdict: str
    reasons: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Outcome:
    """One label beside what was said.

    Attributes:
        word: `right`, `arguable`, `wrong` or `not judged`.
        named: Blockers that a reason names.
        chained: Those of them whose reason leads there from the program.
        blockers: All blockers of the label.
    """

    word: str
    named: tuple[Need, ...]
    chained: tuple[Need, ...]
    blockers: tuple[Need, ...]


def read(report: dict[str, Any]) -> dict[str, Said]:
    """Take the programs from a report in JSON, by their path; all knowledge of its form is here."""
    programs: dict[str, Said] = {}
    for program in report.get("programs", ()):
        reasons = tuple(program["reasons"])
        programs.setdefault(program["path"], Said(program["verdict"].replace(" ", "_"), reasons))
    return programs


def compare(program: Program, target: str, said: Said | None) -> Outcome:
    """Lay a label beside what was said of its program; None is a program that the report does not have."""
    blockers = program.blockers(target)
    reasons = said.reasons if said is not None else ()
    named = tuple(need for need in blockers if any(_means(reason, need) for reason in reasons))
    chained = tuple(need for need in named if any(_leads(reason, need) for reason in reasons))
    return Outcome(_word(program, target, said, program.verdicts[target]), named, chained, blockers)


def first_word(program: Program, target: str, said: Said | None) -> str:
    """Lay what was said beside the label as it was first written."""
    return _word(program, target, said, program.first_verdict(target))


def _word(program: Program, target: str, said: Said | None, verdict: str) -> str:
    if said is None:
        return "wrong"
    if program.started_with and any(target in need.targets for need in program.needs):  # the option changes something
        if said.verdict == verdict == "blocked":  # whatever is said beside it
            return "right"
        offered = (str(option) for reason in said.reasons for option in reason.get("options", ()))
        return "right" if any(_option(program.started_with) == _option(option) for option in offered) else "wrong"
    if said.verdict == verdict:
        return "right"
    if said.verdict in program.arguable:
        return "arguable"
    return "not judged" if said.verdict == "not_judged" else "wrong"


def _option(text: str) -> str:
    """`--use-flash` for `with --use_flash 1`: an option without what stands around it."""
    words = [word for word in text.replace("_", "-").split() if word.startswith("-") or "=" in word]
    return words[0] if words else ""


def _means(reason: dict[str, Any], need: Need) -> bool:
    """Whether a reason speaks of it: by its name, as an import or as a distribution, or by its place."""
    if reason.get("place") == need.chain[-1]:
        return True
    told, meant = _plain(str(reason.get("what", ""))), _plain(need.what)
    return bool(told) and (told == meant or told.startswith(f"{meant}.") or meant.startswith(f"{told}."))


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _leads(reason: dict[str, Any], need: Need) -> bool:
    """Whether a reason's chain begins in the program and comes to the file of the label's last place."""
    files = [str(place).rsplit(":", 1)[0] for place in (*reason.get("chain", ()), reason.get("place") or "")]
    files = [file for file in files if file]
    ends = [place.rsplit(":", 1)[0] for place in (need.chain[0], need.chain[-1])]
    return _means(reason, need) and len(files) > 0 and files[0] == ends[0] and ends[1] in files


def scan(tree: Path, target: str) -> dict[str, Any]:
    """Scan a tree and return the report.

    Raises:
        ValueError: the scan gave none.
    """
    command = [sys.executable, "-m", "torchferry", "scan", str(tree), "--target", target, "--lang", "en"]
    command += ["--isolated", "--exit-zero", "--output-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip()[-400:])
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def judge(repository: Repository, target: str, folder: Path, counts: Counter[str]) -> list[str]:
    """Count the outcomes of a repository and return a line for each that is not right.

    Raises:
        AbsentError: the repository is not there.
    """
    with tempfile.TemporaryDirectory() as place:
        tree = materialise(folder, repository.name, repository.commit, Path(place) / "tree")
        try:
            programs = read(scan(tree, target))
        except ValueError as fault:
            programs = {}
            print(f"{repository.name}: {fault}", file=sys.stderr)
    lines = []
    for program in repository.programs:
        said = programs.get(program.path)
        outcome = compare(program, target, said)
        counts.update({"programs": 1, outcome.word: 1, "blockers": len(outcome.blockers)})
        counts.update({"named": len(outcome.named), "with chain": len(outcome.chained)})
        counts.update({"corrected": bool(program.corrected), f"first {first_word(program, target, said)}": 1})
        title = f"{repository.name} {program.path} {program.started_with}".rstrip()
        if outcome.word != "right":
            told = said.verdict if said is not None else NOT_FOUND
            lines.append(f"{outcome.word:<10} {title}: {program.verdicts[target]}, said {told}; {program.reason}")
        for need in outcome.blockers:
            if need not in outcome.chained:
                lack = "no chain to" if need in outcome.named else "not named"
                lines.append(f"{'blocker':<10} {title}: {lack} {need.what}; {' -> '.join(need.chain)}")
    return lines


def row(title: str, counts: Counter[str]) -> str:
    """A row of the table."""
    return ROW.format(title, *(counts[column] for column in COLUMNS))


def share(words: Iterable[str], counts: Counter[str]) -> str:
    """How many programs of all came to one of these words."""
    found = sum(counts[word] for word in words)
    return f"{found / counts['programs']:.1%}" if counts["programs"] else "none"


def main() -> None:
    """Compare all labels whose repositories are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0])
    repository_options(parser)
    chosen = parser.parse_args()
    if not chosen.repos:
        print("skipped: VERDICTS_REPOS names no folder with repositories")
        return
    for series, name in enumerate(SETS, start=1):
        seen = "rules were made with them" if series == 1 else "labelled and measured before any rule had seen them"
        print(f"{name} set: {seen}")
        compare_all(chosen, [repository for repository in repositories() if repository.series == series])
        print()


def compare_all(chosen: argparse.Namespace, labelled: Iterable[Repository]) -> None:
    """Compare some labels and print the table, then every program that is not right."""
    kinds: dict[str, Counter[str]] = {}
    lines, absent = [], []
    for repository in labelled:
        if chosen.names and not any(name in repository.name for name in chosen.names):
            continue
        counts = kinds.setdefault(repository.kind, Counter())
        try:
            lines += judge(repository, chosen.target, Path(chosen.repos), counts)
        except AbsentError as reason:
            absent.append(f"{'skipped':<10} {repository.name}: {reason}")
    total = sum(kinds.values(), Counter[str]())
    print(ROW.format(chosen.target, *COLUMNS))
    for kind, counts in kinds.items():
        print(row(kind, counts))
    print(row("all", total))
    print(f"right {share(['right'], total)}, right or arguable {share(['right', 'arguable'], total)}")
    first = (
        f"right {share(['first right'], total)}, right or arguable {share(['first right', 'first arguable'], total)}"
    )
    print(f"labels corrected after the tool had run: {total['corrected']}; with all as first written: {first}")
    print(*lines, *absent, sep="\n")


if __name__ == "__main__":
    main()
