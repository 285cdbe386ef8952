"""Every rule against its fixture, for every target that the fixture names."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.rules.fixture import TARGETS, Case, Expected, load
from torchferry.backends import registry as backends
from torchferry.backends.target import Target
from torchferry.rules.base import Options
from torchferry.rules.engine import Engine, Examined, Selection
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.project import Project
from torchferry.source.tree import Entry

FIXTURES = Path(__file__).parent
RULES = {rule.CODE: rule for rule in rules()}


def fixture_of(code: str) -> Path:
    module = type(RULES[code]).__module__.removeprefix("torchferry.rules.")
    return FIXTURES / (module.replace(".", "/") + ".txt")


@cache
def target(name: str) -> Target:
    choice = backends.choose(name)
    return Target(choice.backend, choice.version)


def examine(case: Case, name: str, root: Path, unsafe: bool = False) -> Examined:
    for path, text in case.files:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    project = Project(root, [path for path, _ in case.files if path.endswith(".py")])
    engine = Engine(
        root,
        target(name),
        rules(),
        options=Options(paths=dict(case.paths)),
        selection=Selection(unsafe=unsafe),
        project=project,
    )
    kind = kind_of(case.main[0])
    assert isinstance(kind, Kind), f"{case.main[0]} is no file that torchferry reads"
    examined = engine.examine(Entry(case.main[0], kind), rewrite=True)
    assert examined.failure is None, examined.failure
    return examined


def cases(unchanged: bool) -> list[object]:
    found: list[object] = []
    for code in RULES:
        path = fixture_of(code)
        if path.is_file():
            found += [
                pytest.param(code, case, id=f"{code}-{case.title}")
                for case in load(path)
                if case.unchanged == unchanged
            ]
    return found


def reported(examined: Examined, code: str) -> list[Expected]:
    return [
        Expected(finding.grade.value, f"{finding.location.line}:{finding.location.column}")
        for finding in examined.findings
        if finding.code == code
    ]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("code", "case"), cases(unchanged=True))
def test_what_must_stay_unchanged(code: str, case: Case, name: str, tmp_path: Path) -> None:
    examined = examine(case, name, tmp_path, unsafe=True)
    assert examined.after is None, (examined.after or b"").decode()
    assert reported(examined, code) == case.expected(name)


@pytest.mark.parametrize(("code", "case"), cases(unchanged=False))
def test_what_each_target_gets(code: str, case: Case, tmp_path: Path) -> None:
    for output in case.outputs:
        examined = examine(case, output.target, tmp_path / output.target / str(output.unsafe), output.unsafe)
        before = case.main[1]
        after = before if examined.after is None else examined.after.decode()
        assert after == (before if output.text is None else output.text), output.target
        assert reported(examined, code) == case.expected(output.target), output.target


@pytest.mark.parametrize("code", RULES)
def test_every_rule_has_a_fixture_for_three_targets(code: str) -> None:
    path = fixture_of(code)
    assert path.is_file(), f"{code} has no fixture at {path}"
    found = load(path)
    assert any(case.unchanged for case in found), f"{code} has no case that must stay unchanged"
    assert len({output.target for case in found for output in case.outputs}) >= 3, (
        f"{code} shows fewer than three targets"
    )
    assert any(case.findings for case in found), f"{code} never finds anything in its fixture"
