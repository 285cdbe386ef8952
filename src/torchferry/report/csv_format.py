"""A report as CSV, with the byte-order mark by which spreadsheet programs know UTF-8."""

from __future__ import annotations

from collections.abc import Sequence

from torchferry.core.text_table import csv_text, plain_cell
from torchferry.installed.describing import package_message, state_message
from torchferry.programs.model import Verdict
from torchferry.report.model import Report
from torchferry.report.programs import lines_of, unexamined_message, verdict_of

_HEADER = ("code", "grade", "blocker", "path", "line", "column", "message", "snippet")


def render(report: Report, lang: str) -> str:
    """Return the report as CSV, one finding a row.

    Rows of the grades `failure`, `program`, `package` and `not examined` precede the findings, without a code.
    """
    rows: list[Sequence[object]] = [_HEADER]
    for failure in report.failures:
        last_line = (failure.what.strip().splitlines() or [""])[-1]
        rows.append(["", "failure", "", plain_cell(failure.path), "", "", plain_cell(last_line), ""])
    for judged in report.programs:
        program = judged.program
        messages = [verdict_of(judged), *lines_of(judged)]
        rows.append(
            [
                "",
                "program",
                "yes" if judged.verdict is Verdict.BLOCKED else "",
                plain_cell(program.path),
                "",
                "",
                plain_cell(messages[0].render(lang)),
                plain_cell("; ".join(message.render(lang) for message in messages[1:])),
            ]
        )
    for package in report.packages:
        name = f"{package.package} {package.version}".rstrip()
        state = state_message(package.state).render(lang)
        reason = package_message(package).render(lang)
        rows.append(["", "package", "", plain_cell(name), "", "", plain_cell(state), plain_cell(reason)])
    for unexamined in report.unexamined:
        text = unexamined_message(unexamined).render(lang)
        rows.append(["", "not examined", "", plain_cell(unexamined.place), "", "", plain_cell(text), ""])
    for finding in report.findings:
        place = finding.location
        rows.append(
            [
                finding.code,
                finding.grade.value,
                "yes" if finding.blocker else "",
                plain_cell(place.path),
                place.line,
                place.column,
                plain_cell(finding.message.render(lang)),
                plain_cell(finding.snippet),
            ]
        )
    return csv_text(rows)
