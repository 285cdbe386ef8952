"""A report as GitHub annotations: workflow commands that GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.core.terminal import visible
from torchferry.report.model import Report
from torchferry.rules.file_result import InternalFailure

_LEVELS = {Grade.SAFE: "warning", Grade.UNSAFE: "warning", Grade.MANUAL: "error", Grade.NOTE: "notice"}


def render(report: Report, lang: str) -> str:
    """Return one command a finding, failures and the worst first: GitHub shows ten of a level for each step."""
    order = {Grade.MANUAL: 0, Grade.UNSAFE: 1, Grade.SAFE: 2, Grade.NOTE: 3}
    findings = sorted(report.findings, key=lambda finding: (not finding.blocker, order[finding.grade]))
    failures = "".join(_failure(failure, lang) for failure in report.failures)
    return failures + "".join(_command(finding, lang) for finding in findings)


def _failure(failure: InternalFailure, lang: str) -> str:
    """Return the command for a file that torchferry failed on: without it nobody sees that the report is not whole."""
    last_line = (failure.what.strip().splitlines() or [""])[-1]
    message = say("torchferry failed on this file because of a bug in torchferry: {what}", what=last_line).render(lang)
    return f"::error file={_property(visible(failure.path))},title=torchferry::{_data(visible(message))}\n"


def _command(finding: Finding, lang: str) -> str:
    place = finding.location
    message = visible(finding.message.render(lang))
    properties = {"file": visible(place.path), "title": finding.code}
    if place.cell:  # lines count in the cell, and GitHub knows lines of the file only
        message = f"cell {place.cell}:{place.line}:{place.column} {message}"
    else:
        properties |= {"line": str(place.line), "endLine": str(place.end_line)}
    if place.line == place.end_line and not place.cell:  # GitHub takes columns only within one line
        properties |= {"col": str(place.column), "endColumn": str(place.end_column)}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_LEVELS[finding.grade]} {listed}::{_data(message)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
