"""What `torchferry migrate` makes of each labelled line, beside what a person said who read the code.

    PLACES_REPOS=DIR python benchmarks/places/run.py [--target npu] [-v] [NAME ...]

`DIR` holds the repositories of `labels/`, as for `benchmarks/verdicts`. A label is one of:

- `rewrite`: the line must change, and one mechanical replacement is right;
- `decide`: it fails, is silently wrong or needs what exists for CUDA alone, and a person must look;
- `leave`: it has a word of CUDA's and must not change, and nobody has to be asked.

`arguable` lines are not counted. The labels were written before torchferry ran on these repositories. Prints for each
label how many lines were rewritten by safe fixes, were reported (a fix to read, or a decision), got a note, or nothing;
`-v` lists the lines of which that is not what the label says.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.realworld import examine
from benchmarks.verdicts.checkout import AbsentError, materialise
from torchferry.core.finding import Grade
from torchferry.core.toml import load
from torchferry.rules.file_result import FileResult

LABELS = Path(__file__).parent / "labels"
KINDS = ("rewrite", "decide", "leave")
OUTCOMES = ("rewritten", "reported", "noted", "silent")
RIGHT = {"rewrite": {"rewritten"}, "decide": {"reported"}, "leave": {"noted", "silent"}}
PLUGIN_IMPORT = "IMP101"
"""Its place is the line above which the plugin is imported, whatever stands there."""

ROW = "{:<36}{:<9}" + "{:>10}" * len(OUTCOMES) + "{:>10}"


@dataclass(frozen=True)
class Place:
    """A labelled line.

    Attributes:
        path: The file, from the repository's root.
        line: From 1.
        label: One of `KINDS`.
        why: What a person has to decide there; empty for other labels.
    """

    path: str
    line: int
    label: str
    why: str = ""


def read_labels(path: Path) -> tuple[str, str, list[Place]]:
    """Return the repository's name, its commit and its labelled lines."""
    document = load(path)
    return document["repository"], document["commit"], list(_places(document))


def _places(document: dict[str, object]) -> Iterator[Place]:
    files = document["file"]
    assert isinstance(files, list)
    for file in files:
        for label in ("rewrite", "leave"):
            yield from (Place(file["path"], line, label) for line in file.get(label, ()))
        yield from (Place(file["path"], entry["line"], "decide", entry["why"]) for entry in file.get("decide", ()))


def changed_lines(item: FileResult) -> set[int]:
    """Return the lines of the file as it was that the safe fixes change; what is put in between changes none."""
    if item.before is None or item.after is None:
        return set()
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (item.before, item.after))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return {
        line + 1
        for kind, start, end, _, _ in matcher.get_opcodes()
        if kind in ("replace", "delete")
        for line in range(start, end)
    }


def outcome_of(place: Place, item: FileResult | None, changed: set[int]) -> str:
    """Return what became of a line: one of `OUTCOMES`; a decision counts where the line is rewritten as well."""
    grades = {
        finding.grade
        for finding in (item.findings if item is not None else ())
        if finding.location.line <= place.line <= finding.location.end_line and finding.code != PLUGIN_IMPORT
    }
    is_reported = not grades.isdisjoint((Grade.UNSAFE, Grade.MANUAL))
    if place.line in changed and not (place.label == "decide" and is_reported):
        return "rewritten"
    if is_reported:
        return "reported"
    return "noted" if grades else "silent"


def measure(places: list[Place], root: Path, target: str) -> Iterator[tuple[Place, str]]:
    """Yield each labelled line of a checkout with what became of it."""
    items = {item.path: item for item in examine(root, target).examined}
    changed = {path: changed_lines(item) for path, item in items.items()}
    for place in places:
        yield place, outcome_of(place, items.get(place.path), changed.get(place.path, set()))


def _table(name: str, counts: Counter[tuple[str, str]]) -> Iterator[str]:
    for label in KINDS:
        row = [counts[label, outcome] for outcome in OUTCOMES]
        total = sum(row)
        right = sum(counts[label, outcome] for outcome in RIGHT[label])
        yield ROW.format(name, label, *row, f"{100 * right / total:.1f} %" if total else "-")


def main() -> None:
    """Measure the repositories that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--repos", default=os.environ.get("PLACES_REPOS", ""), help="instead of PLACES_REPOS")
    parser.add_argument("-v", "--verbose", action="store_true", help="list what is not as the label says")
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of repositories")
    options = parser.parse_args()
    if not options.repos:
        print("skipped: PLACES_REPOS names no folder with the labelled repositories")
        return
    total: Counter[tuple[str, str]] = Counter()
    astray: list[str] = []
    print(ROW.format("repository", "label", *OUTCOMES, "right"))
    for path in sorted(LABELS.glob("*.toml")):
        name, commit, places = read_labels(path)
        if options.names and not any(part in name for part in options.names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                root = materialise(Path(options.repos), name, commit, Path(folder) / "tree")
            except AbsentError as error:
                print(f"{name}: skipped: {error}")
                continue
            counts: Counter[tuple[str, str]] = Counter()
            for place, outcome in measure(places, root, options.target):
                counts[place.label, outcome] += 1
                if outcome not in RIGHT[place.label]:
                    astray.append(f"{name} {place.path}:{place.line}: {place.label}, {outcome} {place.why}".rstrip())
        total += counts
        print(*_table(name, counts), sep="\n")
    print(*_table("all", total), sep="\n")
    if options.verbose:
        print(*astray, sep="\n")


if __name__ == "__main__":
    main()
