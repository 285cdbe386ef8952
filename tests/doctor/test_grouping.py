"""Failures with one cause are grouped: the cause and its commands are said once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doctor.recorded import INSIDE, OTHER_PCI, Case, context_of, python
from tests.vendors.npu.doctor import CANN, ENV_SCRIPT, NPU_LIBRARIES, npu
from torchferry.doctor import report
from torchferry.doctor.engine import Diagnosis, choose, examine
from torchferry.doctor.grouping import grouped

PLAIN = python(modules={"torch": "/t"}, distributions={"torch": "2.9.0"}, torch={"version": "2.9.0", "cuda": None})
SET_UP = {"ASCEND_HOME_PATH": "/usr/local/Ascend/cann", "PATH": "/usr/bin", "LD_LIBRARY_PATH": "/usr/lib64"}
STACK = {**CANN, **ENV_SCRIPT, **NPU_LIBRARIES}

CASES = {
    "a laptop": (
        Case("", "npu", (), OTHER_PCI, machine=PLAIN),
        "nothing of Huawei Ascend was found",
        "the host has no such card",
        {"driver.pci", "driver.module", "node.present", "tool.present", "sdk.installed", "python.plugin"},
        set(),
    ),
    "a container without cards": (
        Case("", "npu", (), INSIDE, machine=PLAIN),
        "nothing of Huawei Ascend was found",
        "this container was started without the cards",
        {"node.present", "tool.present", "container.mounts", "library.found", "sdk.installed", "python.plugin"},
        set(),
    ),
    "a container with the toolkit and the plugin, without cards": (
        Case("", "npu", (), {**INSIDE, **STACK}, machine={**npu(), "environment": SET_UP}),
        "no card of Huawei Ascend was found",
        "this container was started without the cards",
        {"node.present", "tool.present", "container.mounts"},
        {"python.import", "sdk.installed"},
    ),
}


def diagnosis(case: Case, root: Path) -> Diagnosis:
    return examine(context_of(case, root), choose(()))


@pytest.mark.parametrize("name", CASES)
def test_what_fails_by_one_cause_is_one_group(name: str, tmp_path: Path) -> None:
    case, what, cause, members, others = CASES[name]
    found = diagnosis(case, tmp_path)
    groups = grouped(found)
    assert what in groups[0].what.render("en")
    assert groups[0].cause is not None
    assert cause in groups[0].cause.render("en")
    codes = {result.code for result in groups[0].members}
    assert members <= codes
    assert not others & codes
    assert f"(causes: {found.count(groups[0].status) - len(groups[0].members) + 1})" in report.summary(found).render(
        "en"
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_command_of_a_group_is_printed_once(name: str, lang: str, tmp_path: Path) -> None:
    found = diagnosis(CASES[name][0], tmp_path)
    text = "\n".join(report.text_lines(found, lang, lambda text, kind: text, report.Detail.USUAL))
    told = report.document(found, lang)
    for command in grouped(found)[0].commands:
        assert text.count(f"$ {command}\n") == 1
        assert json.dumps(told).count(json.dumps(command)) == 1
    number = {result["check"]: result["group"] for result in told["results"]}
    assert all(number[code] == 0 for code in told["groups"][0]["checks"])
    assert told["counts"]["failure"] == found.count(found.results[0].status.FAILURE)  # each is counted as before
    full = "\n".join(report.text_lines(found, lang, lambda text, kind: text, report.Detail.FULL))
    assert full.count("  $ ") > text.count("  $ ")


def test_a_failure_by_itself_is_in_no_group(tmp_path: Path) -> None:
    case = Case("", "npu", (), STACK, machine={**npu(modules={"torch": "/t"}), "environment": SET_UP})
    found = examine(context_of(case, tmp_path), choose(("python",)))
    assert grouped(found) == ()
    assert "causes" not in report.summary(found).render("en")
