"""CSV: every finding a row, in any spreadsheet program, and no text of a project taken for a formula."""

from __future__ import annotations

import csv
import io

import pytest

from tests.report.reports import hostile, real
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.report import csv_format
from torchferry.report.model import Report


def table(report: Report, lang: str = "en") -> list[dict[str, str]]:
    data = csv_format.render(report, lang).encode("utf-8")
    assert data.startswith(b"\xef\xbb\xbf")
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_finding_is_a_row(lang: str) -> None:
    report = real()
    rows = table(report, lang)
    assert [(row["code"], row["grade"], row["path"], row["line"]) for row in rows] == [
        (f.code, f.grade.value, f.location.path, str(f.location.line)) for f in report.findings
    ]
    assert [row["message"] for row in rows] == [f.message.render(lang) for f in report.findings]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain, with a comma", "plain, with a comma"),
        ('"quoted"', '"quoted"'),
        ("=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"),
        (" =1+1", "' =1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("＝1", "'＝1"),
        ("a\r\n=1", "a\\r\\n=1"),
        ("\r=1", "\\r=1"),
        ("\udce9\x1b[31m", "\\udce9\\x1b[31m"),
        ("a=1", "a=1"),
    ],
)
def test_no_text_is_a_formula_or_breaks_its_row(text: str, cell: str) -> None:
    finding = Finding("DEV101", Location(text, 1, 1, 1, 2), say("{x}", x=text), Grade.SAFE, snippet=text)
    (row,) = table(Report("npu", real().target_title, "x", 1, (finding,)))
    assert row["path"] == row["message"] == row["snippet"] == cell


def test_hostile_findings_stay_on_their_rows() -> None:
    text = csv_format.render(hostile(), "en")
    assert text.count("\n") == text.count("\r\n") == 1 + len(hostile().failures) + len(hostile().findings)
