"""A report as SARIF 2.1.0, within the limits of GitHub code scanning.

Limits (GitHub documentation, "SARIF results exceed one or more limits"): 25,000 results a run of which 5,000 are shown,
25,000 rules, 20 tags a rule, 10 MB compressed. The worst findings come first, so that what is cut is the least.
"""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.json_text import json_text
from torchferry.core.terminal import visible
from torchferry.installed.describing import package_message
from torchferry.report.model import Report
from torchferry.report.pages import page
from torchferry.report.programs import chain_of, unexamined_message, unread_chain, verdict_of
from torchferry.rules.registry import family_name, family_title

MAX_RESULTS = 25_000

LONGEST_TEXT = 1024
"""Characters that GitHub takes of a message, and of a rule's short and full description."""

_LEVELS = {Grade.SAFE: "warning", Grade.UNSAFE: "warning", Grade.MANUAL: "error", Grade.NOTE: "note"}
_ORDER = {Grade.MANUAL: 0, Grade.UNSAFE: 1, Grade.SAFE: 2, Grade.NOTE: 3}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://github.com/torchferry/torchferry"


def render(report: Report, lang: str) -> str:
    """Return the report as SARIF text."""
    return json_text(document(report, lang))


def document(report: Report, lang: str) -> dict[str, Any]:
    """Return the report as the object that SARIF holds."""
    ordered = sorted(
        report.findings, key=lambda finding: (not finding.blocker, _ORDER[finding.grade], finding.location)
    )
    taken = ordered[:MAX_RESULTS]
    codes = sorted({finding.code for finding in taken})
    index = {code: number for number, code in enumerate(codes)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "torchferry",
                "semanticVersion": report.torchferry,
                "informationUri": _HOME,
                "rules": [_rule(code, lang) for code in codes],
            }
        },
        "automationDetails": {"id": f"torchferry/{report.target}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"PROJECTROOT": {"description": {"text": "The folder that was scanned."}}},
        "properties": {
            "target": report.target,
            "verdict": report.verdict.value,
            "programs": [
                {
                    "path": judged.program.path,
                    "name": judged.program.title,
                    "verdict": judged.verdict.value,
                    "summary": visible(verdict_of(judged).render(lang)),
                    "chains": [
                        chain_of(item)
                        for item in (*judged.blockers, *judged.optional, *judged.alternatives, *judged.doubts)
                    ],
                    "notRead": [unread_chain(unread) for unread in judged.unread],
                    "settled": judged.settled is not None and judged.settled.decides,
                }
                for judged in report.programs
            ],
            "packages": [
                {
                    "package": package.package,
                    "version": package.version,
                    "state": package.state.value,
                    "reason": visible(package_message(package).render(lang)),
                }
                for package in report.packages
            ],
            "notLookedAt": [visible(unexamined_message(unexamined).render(lang)) for unexamined in report.unexamined],
        },
        "results": [_result(finding, index, lang) for finding in taken],
    }
    if len(ordered) > len(taken) or report.failures:
        notifications = [
            {"level": "error", "message": {"text": visible(f"{failure.path}: {_last_line(failure.what)}")}}
            for failure in report.failures
        ]
        if len(ordered) > len(taken):
            text = f"{len(ordered) - len(taken)} more findings are left out; GitHub takes {MAX_RESULTS}."
            notifications.append({"level": "warning", "message": {"text": text}})
        run["invocations"] = [{"executionSuccessful": not report.failures, "toolExecutionNotifications": notifications}]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str, lang: str) -> dict[str, Any]:
    text = page(code, lang)
    explanation = "\n\n".join(filter(None, (text.body or text.title, text.why)))
    return {
        "id": code,
        "name": text.name,
        "shortDescription": {"text": _clipped(text.title)},
        "fullDescription": {"text": _clipped(text.body or text.title)},
        "help": {"text": explanation, "markdown": explanation},
        "properties": {"tags": [family_title(family_name(code)).render("en")]},
    }


def _result(finding: Finding, index: dict[str, int], lang: str) -> dict[str, Any]:
    place = finding.location
    message = visible(finding.message.render(lang))
    if place.cell:
        message = f"cell {place.cell}:{place.line}:{place.column} {message}"
    return {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": "error" if finding.blocker else _LEVELS[finding.grade],
        "message": {"text": _clipped(message)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {
                        "uri": quote(place.path, errors="surrogateescape"),
                        "uriBaseId": "PROJECTROOT",
                    },
                    "region": _region(place),
                }
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(finding)},
        "properties": {"grade": finding.grade.value, "blocker": finding.blocker},
    }


def _region(place: Location) -> dict[str, int]:
    if place.cell:  # lines count in the cell, and SARIF knows lines of the file only
        return {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2}
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": max(place.end_column, place.column + (place.line == place.end_line)),
    }


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def _fingerprint(finding: Finding) -> str:
    """Return what stays when lines around change: a hash of the rule, the file and the anchor, and its ordinal."""
    path, code, anchor = finding.key
    place = "\0".join((code, path, anchor.symbol, anchor.text))
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:32] + f":{anchor.ordinal}"
