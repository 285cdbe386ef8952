"""Every form of the report holds every finding, and no text of a project can break out of it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.report.reports import hostile, real
from torchferry.core.finding import Location
from torchferry.core.messages import say
from torchferry.programs.model import (
    CallPath,
    Form,
    JudgedProgram,
    Obstacle,
    Program,
    Reachability,
    Start,
    Step,
    Verdict,
)
from torchferry.report import (
    csv_format,
    full_format,
    github_format,
    html_format,
    json_format,
    sarif_format,
    side_by_side,
    text_format,
)
from torchferry.report.programs import lines_of

FORMATS = (csv_format, full_format, github_format, html_format, json_format, sarif_format)
SCHEMA = json.loads((Path(json_format.__file__).parent / "schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.__name__.rpartition(".")[2])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_finding_is_there_and_the_same_again(form: object, lang: str) -> None:
    report = real()
    text = form.render(report, lang)  # type: ignore[attr-defined]
    assert text == form.render(report, lang)  # type: ignore[attr-defined]
    for finding in report.findings:
        assert finding.code in text
        assert str(finding.location.line) in text


def test_json_follows_its_schema() -> None:
    for report in (real("npu"), real("ptex"), hostile()):
        document = json.loads(json_format.render(report, "en"))
        jsonschema.validate(document, SCHEMA)
        assert len(document["findings"]) == len(report.findings)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_sarif_is_what_github_takes() -> None:
    for report in (real(), hostile()):
        run = json.loads(sarif_format.render(report, "en"))["runs"][0]
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert len(run["results"]) == len(report.findings)
        prints = set()
        for result in run["results"]:
            assert rules[result["ruleIndex"]] == result["ruleId"]
            location = result["locations"][0]["physicalLocation"]
            region = location["region"]
            assert (region["endLine"], region["endColumn"]) > (region["startLine"], region["startColumn"])
            assert not re.search(r"[\s<>\"]", location["artifactLocation"]["uri"])
            prints.add(result["partialFingerprints"]["primaryLocationLineHash"])
        assert len(prints) == len(run["results"])
        for rule in run["tool"]["driver"]["rules"]:
            assert rule["shortDescription"]["text"]
            assert len(rule["properties"]["tags"]) <= 20


def test_csv_opens_in_a_spreadsheet_without_formulas() -> None:
    text = csv_format.render(hostile(), "en")
    assert text.startswith("\ufeff")
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    assert len(rows) == 4  # three findings, one failure
    for row in rows:
        for value in row.values():
            assert not value.startswith(("=", "+", "-", "@", "\t"))


def test_annotations_stay_on_their_line() -> None:
    lines = github_format.render(hostile(), "en").removesuffix("\n").split("\n")
    assert len([line for line in lines if line.startswith("::")]) == 4  # three findings, one failure
    assert len(lines) == 4


def test_text_has_no_control_characters() -> None:
    text = text_format.render(hostile(), "en")
    assert "\x1b" not in text
    assert "\u2028" not in text


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "a\n"), ("a\n", ""), ("a\nb\nc\n", "a\nB\nc\n"), ("\n".join(map(str, range(50))), "0\n" * 3), ("x", "x")],
)
def test_rows_hold_every_line_of_both_sides(before: str, after: str) -> None:
    rows = list(side_by_side.rows(before, after))
    folded = sum(row.folded for row in rows)
    left = [row for row in rows if row.left]
    right = [row for row in rows if row.right]
    assert len(left) + folded == len(before.splitlines())
    assert len(right) + folded == len(after.splitlines())
    for row in left:
        assert "".join(part.text for part in row.before) == before.splitlines()[row.left - 1]
    for row in right:
        assert "".join(part.text for part in row.after) == after.splitlines()[row.right - 1]


def test_chinese_where_it_is_asked_for() -> None:
    assert re.search(r"[\u4e00-\u9fff]", text_format.render(real(), "zh"))
    assert not re.search(r"[\u4e00-\u9fff]", text_format.render(real(), "en"))


def test_what_stands_behind_one_option_is_told_once_and_a_way_that_was_not_found_as_such() -> None:
    def obstacle(what: str, line: int, way: CallPath) -> Obstacle:
        return Obstacle(what, "CMP101", Location("net.py", line, 1, line, 2), say("x"), way)

    behind = [obstacle("torch.compile", line, CallPath(Reachability.OPTION, (Step("net.py", line),), (), ("--fast",)))
              for line in (3, 5, 8)]  # fmt: skip
    program = Program("train.py", Form.SCRIPT)
    judged = JudgedProgram(
        program, Verdict.WITHOUT, (), (obstacle("apex", 9, CallPath(Reachability.CHOSEN, ())),), alternatives=(*behind,)
    )
    assert [line.render("en") for line in lines_of(judged)] == [
        "apex, perhaps: too many paths lead there to follow them all: net.py:9",
        "torch.compile, only with `--fast` (places: 3): net.py:3",
    ]
    starts = (Start("python train.py", "a.sh:1"), Start("python train.py --fast", "a.sh:2", ("--fast",)))
    started = judged._replace(program=program._replace(starts=starts))
    assert [line.render("en") for line in lines_of(started)][1:] == [
        "torch.compile, only with `--fast`, as a.sh:2 starts it (places: 3): net.py:3",
    ]
