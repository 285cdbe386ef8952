"""A report as CSV, with the byte-order mark by which spreadsheet programs know UTF-8."""

from __future__ import annotations

import csv
import io

from torchferry.core.terminal import visible
from torchferry.installed.describing import package_message, state_message
from torchferry.programs.model import Verdict
from torchferry.report.model import Report
from torchferry.report.programs import lines_of, unlooked_message, verdict_of

_HEADER = ("code", "grade", "blocker", "path", "line", "column", "message", "snippet")
_FORMULA = ("=", "+", "-", "@", "\t", "＝", "＋", "－", "＠")
"""What spreadsheet programs take for the start of a formula; the wide signs are escaped to be on the safe side."""


def render(report: Report, lang: str) -> str:
    """Return the report as CSV, one finding a row.

    Rows of the grades `failure`, `program`, `package` and `not examined` stand before the findings, without a code.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(_HEADER)
    for failure in report.failures:
        last_line = (failure.what.strip().splitlines() or [""])[-1]
        writer.writerow(["", "failure", "", _plain(failure.path), "", "", _plain(last_line), ""])
    for judged in report.programs:
        program = judged.program
        messages = [verdict_of(judged), *lines_of(judged)]
        writer.writerow(
            [
                "",
                "program",
                "yes" if judged.verdict is Verdict.BLOCKED else "",
                _plain(program.path),
                "",
                "",
                _plain(messages[0].render(lang)),
                _plain("; ".join(message.render(lang) for message in messages[1:])),
            ]
        )
    for package in report.packages:
        name = f"{package.package} {package.version}".rstrip()
        state = state_message(package.state).render(lang)
        reason = package_message(package).render(lang)
        writer.writerow(["", "package", "", _plain(name), "", "", _plain(state), _plain(reason)])
    for unlooked in report.unlooked:
        text = unlooked_message(unlooked).render(lang)
        writer.writerow(["", "not examined", "", _plain(unlooked.place), "", "", _plain(text), ""])
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
    text = visible(text)
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) else text
