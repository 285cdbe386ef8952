"""Every rule against its fixture, for every target that the fixture names."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.rules.fixture import RULES, TARGETS, Case, Expected, Output, fixture_of, load
from torchferry.backends import registry as backends
from torchferry.backends.portable import INSTALLED, PortableTarget
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.migration.plan import plan
from torchferry.rules.analysis import Analysis, Request, analyse
from torchferry.rules.base import Options
from torchferry.rules.file_result import Selection
from torchferry.rules.registry import rules
from torchferry.rules.runtime.report import RuntimeReport, read_runtime_report
from torchferry.source.tree import list_files

FIXTURES = {rule.CODE: fixture_of(type(rule).__module__) for rule in rules()}
PLUGIN_IMPORT = "IMP101"
PLACED_IMPORTS = (PLUGIN_IMPORT, "IMP103")
WRITE_PROTECTED = "FIL107"


@cache
def target(name: str) -> Target:
    choice = backends.choose(name)
    return Target(choice.backend, choice.version)


def write(case: Case, root: Path) -> Options:
    """Write the files of a case as they are to be on the disk."""
    disk = dict(case.disk)
    for index, (path, text) in enumerate(case.files):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode(disk.get("encode", "utf-8") if index == 0 else "utf-8"))
    main = root / case.main[0]
    if "link" in disk:
        main.unlink()
        os.symlink(disk["link"], main)
    if "mode" in disk:
        main.chmod(int(disk["mode"], 8))
    return Options(paths=dict(case.paths), max_file_size=int(disk.get("largest", 5_000_000)))


def seen(case: Case, root: Path) -> RuntimeReport | None:
    """Return what a run saw of the first file."""
    lines = [value.split() for key, value in case.disk if key == "seen"]
    if not lines:
        return None
    path = case.main[0]
    sites = [{"path": path, "line": int(line), "name": name, "times": 2} for line, name in lines]
    hashes = {path: hashlib.sha256((root / path).read_bytes()).hexdigest()}
    report = root.with_suffix(".json")
    document = {"schema": "1.0", "root": str(root), "files": hashes, "sites": sites}
    report.write_text(json.dumps(document), encoding="utf-8")
    return read_runtime_report(report, root)


def is_passed_over(finding: Finding) -> bool:
    """Whether a note, which is no work for anybody, is about a place that fails on the target or silently goes wrong.

    Another build of a package is work that programs count by themselves; the plugin is named by every report.
    """
    fails = finding.effect in (Effect.RAISES, Effect.WRONG)
    return finding.grade is Grade.NOTE and fails and not finding.installs and finding.code != "DEP103"


def run(case: Case, code: str, name: str, root: Path, unsafe: bool = False) -> tuple[list[Expected], bytes | None]:
    """Migrate a case; return what the rule found in its first file, and the file's new bytes if it changes."""
    options = write(case, root)
    listing = list_files(root)
    if "gone" in dict(case.disk):
        (root / case.main[0]).unlink()
    ignored = () if code in PLACED_IMPORTS else (PLUGIN_IMPORT,)
    selection = Selection(unsafe=unsafe, ignore=ignored)
    written_for = target(name)
    for style, module in (("portable", "device_utils"), ("package", INSTALLED)):
        if ("style", style) in case.disk:
            written_for = PortableTarget(written_for.backend, written_for.version, module)
    if "dtype" in dict(case.disk):
        options = options._replace(dtype=dict(case.disk)["dtype"])
    if "status-line" in dict(case.disk):
        options = options._replace(status_line=True)
    request = Request(
        root, listing, written_for, rules(), options, selection, rewrite=True,
        seen=seen(case, root), redirected=("style", "shim") in case.disk,
    )  # fmt: skip
    analysis = analyse(request)
    assert analysis.failures == []
    assert not [finding for finding in analysis.findings if is_passed_over(finding)]
    planned = plan(root, analysis)
    main = case.main[0]
    # only the attempt to write a file shows that it is write-protected
    found = analysis.findings + [finding for finding in planned.remaining if finding.code == WRITE_PROTECTED]
    after = next((write.after for write in planned.writes if write.path == main), None)
    return [
        Expected(finding.grade.value, f"{finding.location.line}:{finding.location.column}")
        for finding in found
        if finding.code == code and finding.location.path == main
    ], after


@pytest.mark.parametrize("code", FIXTURES)
def test_what_must_stay_unchanged(code: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, case in enumerate(case for case in load(FIXTURES[code]) if case.unchanged):
        for name in TARGETS:
            with subtests.test(case.title, target=name):
                found, after = run(case, code, name, tmp_path / str(number) / name, unsafe=True)
                assert after is None, after
                assert found == case.expected(name)


@pytest.mark.parametrize("code", FIXTURES)
def test_what_each_target_gets(code: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, case in enumerate(case for case in load(FIXTURES[code]) if not case.unchanged):
        encoding = dict(case.disk).get("encode", "utf-8")
        for output in case.outputs:
            with subtests.test(case.title, target=output.target, unsafe=output.unsafe):
                root = tmp_path / str(number) / output.target / str(output.unsafe)
                found, after = run(case, code, output.target, root, output.unsafe)
                before = case.main[1]
                text = before if after is None else after.decode(encoding)
                assert text == (before if output.text is None else output.text)
                assert found == case.expected(output.target)


_PORTABLE = {("style", "portable")}


def _analysed(case: Case, name: str, root: Path, options: Options, rewrite: bool) -> Analysis:
    selection = Selection(ignore=(PLUGIN_IMPORT,))
    written_for = target(name)
    if case.disk:
        written_for = PortableTarget(written_for.backend, written_for.version, "device_utils")
    return analyse(Request(root, list_files(root), written_for, rules(), options, selection, rewrite=rewrite))


def _decisions(findings: Iterable[Finding]) -> Counter[tuple[str, str]]:
    return Counter((found.location.path, found.code) for found in findings if found.grade is Grade.MANUAL)


@pytest.mark.parametrize("code", FIXTURES)
def test_a_decision_is_settled_by_no_rename(code: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """What a migration leaves to a person is found by the next scan, under whichever spelling."""
    for number, case in enumerate(
        case for case in load(FIXTURES[code]) if case.findings and set(case.disk) <= _PORTABLE
    ):
        for name in TARGETS:
            root = tmp_path / str(number) / name
            options = write(case, root)
            first = _analysed(case, name, root, options, rewrite=True)
            decisions = _decisions(first.findings)
            if not decisions:
                continue
            with subtests.test(case.title, target=name):
                planned = plan(root, first)
                places = {(f.location.path, f.location.line, f.location.column) for f in first.findings if f.edits}
                answered = Counter(
                    (found.location.path, found.code)
                    for found in first.findings
                    if found.grade is Grade.MANUAL
                    and (found.location.path, found.location.line, found.location.column) in places
                )
                left = _decisions(planned.remaining)
                assert not decisions - left - answered, "they vanish in the migration"
                for changed in planned.writes:
                    (root / changed.path).write_bytes(changed.after)
                again = _decisions(_analysed(case, name, root, options, rewrite=False).findings)
                assert not left - again, "the next scan does not find them"


def test_every_rule_has_a_fixture_for_three_targets() -> None:
    for code, path in FIXTURES.items():
        assert path.is_file(), f"{code} has no fixture at {path}"
        cases = load(path)
        assert any(case.unchanged for case in cases), f"{code} has no case that must stay unchanged"
        targets = {output.target for case in cases for output in case.outputs}
        assert len(targets) >= 3, f"{code} shows fewer than three targets"
        assert any(case.findings for case in cases), f"{code} never finds anything in its fixture"


def test_a_vendor_has_expectations_in_its_own_folder(tmp_path: Path) -> None:
    fixture = FIXTURES["DEV103"]
    name = TARGETS[-1]
    before = load(fixture, tmp_path)
    rewritten = next(case for case in before if not case.unchanged)
    kept = next(case for case in before if case.unchanged)
    own = tmp_path / name / "rules" / fixture.relative_to(RULES)
    own.parent.mkdir(parents=True)
    own.write_text(
        f"=== case: {rewritten.title}\n>>> manual 7:1\n--- unchanged\n=== unchanged: {kept.title}\n>>> note 2:3\n"
    )
    after = {case.title: case for case in load(fixture, tmp_path)}
    assert after[rewritten.title].expected(name) == [Expected("manual", "7:1")]
    assert after[rewritten.title].outputs == (*rewritten.outputs, Output(name, unsafe=False, text=None))
    assert after[kept.title].expected(name) == [Expected("note", "2:3")]
    for case in before:
        assert [after[case.title].expected(other) for other in TARGETS[:-1]] == [
            case.expected(other) for other in TARGETS[:-1]
        ]
    own.write_text("=== case: of which the fixture knows nothing\n>>> manual 7:1\n--- unchanged\n")
    with pytest.raises(AssertionError, match="no such case"):
        load(fixture, tmp_path)
