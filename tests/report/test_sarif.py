"""SARIF as GitHub takes it.

The limits are those of GitHub's page "SARIF support for code scanning".
"""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest

from tests.report.reports import hostile, real
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.report import sarif_format
from torchferry.report.model import Report
from torchferry.rules.file_result import InternalFailure

REPORTS = [real("npu"), real("ptex"), hostile()]


def run_of(report: Report, lang: str = "en") -> dict[str, Any]:
    document = json.loads(sarif_format.render(report, lang).encode("utf-8"))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    assert isinstance(run, dict)
    return run


def report_with(*findings: Finding) -> Report:
    return Report("npu", real().target_title, "x", 1, findings)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("report", REPORTS, ids=["npu", "ptex", "hostile"])
def test_rules_and_results_are_within_the_limits(report: Report, lang: str) -> None:
    run = run_of(report, lang)
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules) <= 25_000
    for rule in rules:
        assert 0 < len(rule["name"]) <= 255
        for part in ("shortDescription", "fullDescription"):
            assert 0 < len(rule[part]["text"]) <= 1024
        assert rule["help"]["text"]
        assert len(rule["properties"]["tags"]) <= 10
    assert len(run["results"]) == len(report.findings) <= 25_000
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert 0 < len(result["message"]["text"]) <= 1024
        assert len(result["locations"]) == 1


@pytest.mark.parametrize("report", REPORTS, ids=["npu", "ptex", "hostile"])
def test_places_are_relative_uris_and_regions_that_are_not_empty(report: Report) -> None:
    run = run_of(report)
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        artifact, region = place["artifactLocation"], place["region"]
        assert re.fullmatch(r"(?:[\w.~/-]|%[0-9A-F]{2})+", artifact["uri"])
        assert not artifact["uri"].startswith("/")
        assert artifact["uriBaseId"] in run["originalUriBaseIds"]
        assert min(region.values()) >= 1
        assert (region["endLine"], region["endColumn"]) > (region["startLine"], region["startColumn"])


def test_the_worst_comes_first_and_the_rest_is_counted() -> None:
    many = [Finding("DEV101", Location("a.py", line, 1, line, 2), say("x"), Grade.NOTE) for line in range(1, 25_100)]
    safe = Finding("DEV101", Location("b.py", 1, 1, 1, 2), say("x"), Grade.SAFE)
    worst = Finding("EXT102", Location("z.cu", 1, 1, 1, 2), say("x"), Grade.MANUAL, blocker=True)
    report = report_with(*many, safe, worst)
    text = sarif_format.render(report, "en")
    assert len(gzip.compress(text.encode())) < 10_000_000
    (run,) = json.loads(text)["runs"]
    assert len(run["results"]) == sarif_format.MAX_RESULTS == 25_000
    assert [result["level"] for result in run["results"][:3]] == ["error", "warning", "note"]
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"].startswith("101 more findings")
    assert "left out" in notification["message"]["text"]
    assert run["invocations"][0]["executionSuccessful"]


def test_fingerprints_differ_and_stay_when_lines_move() -> None:
    def prints(report: Report) -> list[str]:
        return [result["partialFingerprints"]["primaryLocationLineHash"] for result in run_of(report)["results"]]

    findings = real().findings
    moved = [f._replace(location=f.location._replace(line=f.location.line + 7, end_line=f.location.end_line + 7))
             for f in findings]  # fmt: skip
    before = prints(report_with(*findings))
    assert len(set(before)) == len(before)
    assert sorted(prints(report_with(*moved))) == sorted(before)


def test_targets_do_not_overwrite_each_other() -> None:
    ids = {run_of(real(target))["automationDetails"]["id"] for target in ("npu", "musa", "ptex")}
    assert ids == {"torchferry/npu/", "torchferry/musa/", "torchferry/ptex/"}


def test_places_in_a_notebook_are_said_and_not_taken_for_lines_of_the_file() -> None:
    finding = Finding("DEV101", Location("a.ipynb", 40, 5, 40, 9, 3), say("x"), Grade.SAFE)
    (result,) = run_of(report_with(finding))["results"]
    assert result["message"]["text"] == "cell 3:40:5 x"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1


def test_long_texts_are_cut() -> None:
    (result,) = run_of(report_with(Finding("DEV101", Location("a", 1, 1, 1, 2), say("{x}", x="x" * 5000), Grade.SAFE)))[
        "results"
    ]
    assert len(result["message"]["text"]) == 1024
    assert result["message"]["text"].endswith("…")


def test_faults_are_told_even_without_words() -> None:
    report = report_with()
    run = run_of(Report(report.target, report.target_title, "x", 1, (), failures=(InternalFailure("a\udce9.py", ""),)))
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    assert "a\\udce9.py" in invocation["toolExecutionNotifications"][0]["message"]["text"]
