"""Every check over recorded machines: a table with a row that is well and a row that is not, for each."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tests.doctor.recorded import Case, context_of, results_of
from torchferry.doctor.context import CheckContext
from torchferry.doctor.engine import examine
from torchferry.doctor.registry import _check_of, all_checks
from torchferry.doctor.result import Result

VENDORS = sorted(path.parent.name for path in Path(__file__).parent.parent.glob("vendors/*/doctor.py"))
CASES: list[Case] = [case for name in VENDORS for case in importlib.import_module(f"tests.vendors.{name}.doctor").CASES]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_check_over_a_recorded_machine(case: Case, tmp_path: Path) -> None:
    results = results_of(case, tmp_path)
    assert [result.status.value for result in results] == [status for status, _ in case.wanted], results
    for result, (_, said) in zip(results, case.wanted, strict=True):
        assert said in result.what.render("en")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_not_well_has_a_cause_and_a_command(case: Case, tmp_path: Path) -> None:
    for result in results_of(case, tmp_path):
        if result.status.value in ("failure", "warning"):
            assert result.cause is not None, result
            assert result.commands, result
            assert all(result.commands), result
            for text in (result.what, result.cause, result.advice):
                assert text is None or re.search(r"[\u4e00-\u9fff]", text.render("zh")) or "{" not in str(text)
        assert "{" not in result.what.render("en") + (result.cause.render("en") if result.cause else "")
        for command in result.commands:
            assert "..." not in command, command
            assert "{" not in re.sub(r"'\{\{.*?\}\}'|\$\{\w+\}|%\{\w+\}", "", command), command


def test_a_module_that_makes_no_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torchferry.doctor.checks.empty"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(TypeError, match="has 0 checks"):
        _check_of("empty")


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.code)
def test_every_check_has_rows_of_both_kinds(check: object) -> None:
    code = check.code  # type: ignore[attr-defined]
    statuses = {status for case in CASES if case.check == code for status, _ in case.wanted}
    assert "ok" in statuses, code
    assert statuses & {"failure", "warning", "unknown"}, code


def test_a_check_that_breaks_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    def broken(context: CheckContext) -> Iterator[Result]:
        raise ValueError("no such line")

    context = context_of(Case("system.clock", "npu", ()), tmp_path)
    checks = [replace(all_checks()[0], run=broken), all_checks()[0]]
    first, *rest = examine(context, checks).results
    assert first.status.value == "unknown"
    assert "ValueError: no such line" in first.what.render("en")
    assert rest


def test_a_container_with_some_nodes_was_not_started_without_the_cards(tmp_path: Path) -> None:
    inside = [case for case in CASES if case.check == "node.present" and "this container" in case.wanted[-1][1]]
    some = [case for case in CASES if case.check == "node.present" and case.wanted[-1][1] == "/dev/devmm_svm"]
    for cases, said in ((inside, "without the cards"), (some, "without these device nodes")):
        assert cases
        for case in cases:
            cause = results_of(case, tmp_path)[-1].cause
            assert cause is not None
            assert said in cause.render("en")
