"""A report as CSV, with the byte-order mark by which spreadsheet programs know UTF-8."""

from __future__ import annotations

import csv
import io

from torchferry.report.model import Report
from torchferry.report.shown import shown

_HEADER = ("code", "grade", "blocker", "path", "line", "column", "message", "snippet")
_FORMULA = ("=", "+", "-", "@", "\t", "＝", "＋", "－", "＠")
"""What spreadsheet programs take for the start of a formula; the wide signs are escaped to be on the safe side."""


def render(report: Report, lang: str) -> str:
    """Return the report as CSV, one finding a row; files that torchferry failed on are rows of the grade `failure`."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(_HEADER)
    for failure in report.failures:
        what = (failure.what.strip().splitlines() or [""])[-1]
        writer.writerow(["", "failure", "", _plain(failure.path), "", "", _plain(what), ""])
    for finding in report.findings:
        place = finding.location
        writer.writerow(
            [
                finding.code,
                finding.grade.value,
                "yes" if finding.blocker else "",
                _plain(place.path),
                place.line,
                place.column,
                _plain(finding.message.render(lang)),
                _plain(finding.snippet),
            ]
        )
    return "\ufeff" + out.getvalue()


def _plain(text: str) -> str:
    """Keep a spreadsheet from taking text out of somebody's source for a formula."""
    text = shown(text)
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) else text
