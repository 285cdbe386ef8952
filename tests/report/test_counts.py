"""Every number that a report prints is one that JSON holds, in each form and in both languages."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from tests.report.html_page import page_of
from tests.report.reports import real
from tests.report.test_nothing_lost import LANGUAGES, reports
from torchferry.core.messages import Message, say, say_plural
from torchferry.report import csv_format, html_format, json_format, sarif_format, text_format
from torchferry.report.model import Report
from torchferry.report.text_layout import TextLayout

WIDE = 4000
"""Columns in which nothing is cut or wrapped."""


def lines_of(report: Report, lang: str) -> list[str]:
    return list(text_format.lines(report, TextLayout(lang, width=WIDE)))


def expected(document: dict[str, Any]) -> dict[str, Message]:
    """Return the sentences that a short text has with numbers, by their names; what JSON counts 0 of has none."""
    decisions = [each for each in document["decisions"] if not each["fix"] and not each["unresolved"]]
    places = sum(len(each["places"]) for each in decisions)
    counts = document["counts"]
    said: dict[str, Message] = {}
    if len(document["programs"]) > 1:
        said["programs"] = say("Programs: {count}", count=len(document["programs"]))
    if decisions:
        title = say_plural("Decisions: one", "Decisions: {count}", count=len(decisions))
        said["decisions"] = (
            say("{decisions} in {count} places", decisions=title, count=places) if places > len(decisions) else title
        )
    if counts.get("safe"):
        said["next"] = say_plural("makes the one safe fix", "makes the {count} safe fixes", count=counts["safe"])
        files = {each["path"] for each in document["findings"] if each["grade"] == "safe"}
        said["migrate"] = say(
            "`torchferry migrate` makes {fixes} in {files}.",
            fixes=say_plural("one safe fix", "{count} safe fixes", count=counts["safe"]),
            files=say_plural("one file", "{count} files", count=len(files)),
        )
    if counts.get("unsafe"):
        said["read"] = say_plural("shows the fix to read", "shows the {count} fixes to read", count=counts["unsafe"])
    if counts.get("note"):
        said["notes"] = say_plural(
            "One note on a place that stays as it is (`-v` shows it).",
            "{count} notes on places that stay as they are (`-v` shows them).",
            count=counts["note"],
        )
    accepted = [each for each in document["findings"] if each["grade"] == "note" and each.get("decided_by")]
    if accepted:
        said["accepted"] = say("Accepted as they are: {count}", count=len(accepted))
    return said


def numbers(lines: list[str]) -> Counter[int]:
    """Return the numbers of a text, but those of places that have no room; of one thing it is a word in English."""
    text = re.sub(r"\b(?:one|One)\b|(?<=shows the )(?=fix to read)", "1 ", "\n".join(lines))
    return Counter(int(each) for each in re.findall(r"(?<![\w.:+-])\d+(?![\w.:]*\w)", text, re.ASCII))


def check(report: Report) -> None:
    document = json.loads(json_format.render(report, "en"))
    for lang in LANGUAGES:
        lines = lines_of(report, lang)
        text = "\n".join(lines)
        for name, message in expected(document).items():
            assert message.render(lang) in text, name
        rows = [re.match(r"(?= *\d)([ \d]{5})  ", line) for line in lines]
        if len(document["programs"]) > 1:  # the classes add up
            assert sum(int(row[1]) for row in rows if row) == len(document["programs"])
        page = page_of(html_format.render(report, lang))
        of_grades = {
            each.attributes["data-grade"]: each for each in page.all("button") if "data-grade" in each.attributes
        }
        for grade, button in of_grades.items():
            assert int(button.first("span").text) == document["counts"].get(grade, 0)
        rows_of_csv = list(csv.DictReader(io.StringIO(csv_format.render(report, lang).removeprefix("\ufeff"))))
        of_rows = Counter(row["grade"] for row in rows_of_csv if row["code"])
        assert of_rows == {grade: count for grade, count in document["counts"].items() if count}
        assert sum(row["grade"] == "program" for row in rows_of_csv) == len(document["programs"])
        (run,) = json.loads(sarif_format.render(report, lang))["runs"]
        assert Counter(each["properties"]["grade"] for each in run["results"]) == of_rows
        in_their_language = json.loads(json_format.render(report, lang))
        assert in_their_language["counts"] == document["counts"]
        freed_as_said(lines, document, lang)
    english, chinese = (numbers(lines_of(report, lang)) for lang in LANGUAGES)
    assert english == chinese


def freed_as_said(lines: list[str], document: dict[str, Any], lang: str) -> None:
    """Check how many programs wait for nothing but the decisions that stand first, where the title says a number."""
    waits = [set(each["waits_for"]) for each in document["programs"] if each["waits_for"]]
    ids = {each["id"] for each in document["decisions"]}
    for number, line in enumerate(lines):
        said = next((match for pattern in patterns_of_title(lang) if (match := re.search(pattern, line))), None)
        if said is None:
            continue
        behind = [part for row in lines[number + 1 :] for part in row.split(";  ")]
        begins = [re.match(r" *((?:[\w.+-]+, )*[\w.+-]+)  ", part) for part in behind]
        shown = [each for begin in begins if begin for each in begin[1].split(", ") if each in ids]
        first = set([*dict.fromkeys(shown)][: int(said.groupdict().get("count", 1))])
        freed = sum(each <= first for each in waits)
        assert (freed, len(waits)) == (int(said["ready"]), int(said["waiting"]))


def patterns_of_title(lang: str) -> Iterator[str]:
    """Yield what the title of the decisions says of the first ones, as patterns: of several, and of one."""
    marks = {"count": "901", "ready": "902", "waiting": "903"}
    for values in (marks, marks | {"count": "1"}):
        message = say_plural(
            "programs that the first one frees: {ready} of {waiting}",
            "programs that the first {count} free: {ready} of {waiting}",
            **values,
        )
        pattern = re.escape(message.render(lang))
        for name, mark in marks.items():
            pattern = pattern.replace(mark, rf"(?P<{name}>\d+)")
        yield pattern


@settings(max_examples=15)
@given(reports())
def test_the_numbers_of_every_form_are_those_of_json(report: Report) -> None:
    check(report)


@pytest.mark.parametrize("target", ["npu", "ptex"])
def test_the_numbers_of_an_example_agree(target: str) -> None:
    check(real(target))
