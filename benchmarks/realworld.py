"""Migrate real repositories to every target and check what must hold; none of them is part of this project.

    TORCHFERRY_REPOSITORIES=DIR python benchmarks/realworld.py [NAME ...]

For each checkout in `DIR` and each target: no fault of torchferry's own, every migrated Python file parses, a second
run changes nothing, no decision is lost, the next scan finds those that are left, and `undo` gives back every byte.
Prints one row each: fixes, files, what is left, words that stay.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core.env import jobs
from torchferry.core.finding import Finding, Grade
from torchferry.migration.plan import plan
from torchferry.migration.transaction import apply, exclusive, undo
from torchferry.rules.analysis import Analysis, Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

ROW = "{:<28} {:<6} {:>6} {:>6} {:>5} {:>7} {:>8} {:>6} {:>6}"
HEAD = ROW.format("repository", "target", "files", "fixes", "in", "unsafe", "by hand", "stay", "s")


def digest(root: Path) -> str:
    """Return a hash of every path, mode and byte below a folder but torchferry's own."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if ".torchferry" in path.parts or path.is_symlink() or not path.is_file():
            continue
        found.update(os.fsencode(path.relative_to(root)) + oct(path.stat().st_mode).encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def examine(root: Path, name: str) -> Analysis:
    """Analyse a tree for a target, fixes applied in memory."""
    target = Target(registry.load(name))
    return analyse(Request(root, list_files(root), target, rules(), rewrite=True, jobs=jobs(), account=True))


def decisions(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that a person has to decide."""
    return [finding for finding in findings if finding.grade is Grade.MANUAL]


def check_decisions(before: list[Finding], left: Iterable[Finding], again: Iterable[Finding]) -> None:
    """Check that a decision goes only where a fix replaces its place, and that the next scan finds what is left.

    Raises:
        AssertionError: one vanished.
    """
    left = list(left)
    kept = {(finding.code, finding.origin or finding.location) for finding in left}
    fixed = {finding.location for finding in before if finding.edits}
    lost = [
        f"{finding.code} {finding.location}"
        for finding in decisions(before)
        if (finding.code, finding.location) not in kept and finding.location not in fixed
    ]
    assert not lost, f"the migration loses decisions: {lost[:3]}"
    found = Counter((finding.location.path, finding.code) for finding in decisions(again))
    missed = Counter((finding.location.path, finding.code) for finding in decisions(left)) - found
    assert not missed, f"the next scan does not find what is left: {missed.most_common(3)}"


def check(source: Path, name: str, folder: Path) -> str:
    """Migrate a copy there and back and return the row of the table.

    Raises:
        AssertionError: something does not hold.
    """
    root = folder / "copy"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    before = digest(root)
    begin = time.perf_counter()
    analysis = examine(root, name)
    passed = time.perf_counter() - begin
    assert not analysis.failures, analysis.failures[0].what
    planned = plan(root, analysis)
    with exclusive(root) as tree:
        if planned.writes:
            apply(tree, planned.writes, name)
    for write in planned.writes:
        if write.path.endswith(".py"):
            ast.parse(write.after)
    again = examine(root, name)
    changed = [item.path for item in again.examined if item.after is not None]
    assert not changed, f"a second run changes {changed[:3]}"
    check_decisions(analysis.findings, planned.remaining, again.findings)
    with exclusive(root) as tree:
        for journal in reversed(tree.journals()):
            undo(tree, journal)
    assert digest(root) == before, "undo did not give back every byte"
    left = [finding.grade for finding in planned.remaining]
    kept = sum(len(item.words.staying) for item in analysis.examined)
    return ROW.format(
        source.name[:28],
        name,
        len(analysis.examined),
        len(planned.fixed),
        len(planned.writes),
        left.count(Grade.UNSAFE),
        left.count(Grade.MANUAL),
        kept,
        f"{passed:.1f}",
    )


def checked(source: Path, name: str, folder: Path) -> str:
    """Return the row of a repository and a target, or one that says what does not hold."""
    try:
        return check(source, name, folder)
    except AssertionError as error:
        return f"{source.name:<28} {name:<6} FAILED: {error}"


def main() -> None:
    """Check the repositories that are there."""
    folder = os.environ.get("TORCHFERRY_REPOSITORIES", "")
    found = sorted(path for path in Path(folder).iterdir() if path.is_dir()) if folder else []
    if sys.argv[1:]:
        found = [path for path in found if any(name in path.name for name in sys.argv[1:])]
    if not found:
        print("skipped: TORCHFERRY_REPOSITORIES names no folder with checkouts")
        return
    print(HEAD, flush=True)
    failed = False
    with tempfile.TemporaryDirectory() as place:
        for source in found:
            for name in registry.built_in():
                row = checked(source, name, Path(place))
                failed = failed or "FAILED" in row
                print(row, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
