"""A report as SARIF 2.1.0, within the limits of GitHub code scanning.

Limits (GitHub documentation, "SARIF results exceed one or more limits"): 25,000 results a run of which 5,000 are shown,
25,000 rules, 20 tags a rule, 10 MB compressed. The worst findings come first, so that what is cut is the least.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

from torchferry.core.finding import Finding, Grade
from torchferry.report.families import TITLES
from torchferry.report.model import Report, family
from torchferry.report.pages import page

MAX_RESULTS = 25_000
_LEVELS = {Grade.SAFE: "warning", Grade.UNSAFE: "warning", Grade.MANUAL: "error", Grade.NOTE: "note"}
_ORDER = {Grade.MANUAL: 0, Grade.UNSAFE: 1, Grade.SAFE: 2, Grade.NOTE: 3}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://github.com/torchferry/torchferry"


def render(report: Report, lang: str) -> str:
    """Return the report as SARIF text."""
    return json.dumps(document(report, lang), ensure_ascii=False, indent=1) + "\n"


def document(report: Report, lang: str) -> dict[str, Any]:
    """Return the report as the object that SARIF holds."""
    ordered = sorted(
        report.findings, key=lambda finding: (not finding.blocker, _ORDER[finding.grade], finding.location)
    )
    shown = ordered[:MAX_RESULTS]
    codes = sorted({finding.code for finding in shown})
    index = {code: number for number, code in enumerate(codes)}
    seen: dict[str, int] = {}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "torchferry",
                "semanticVersion": report.torchferry,
                "informationUri": _HOME,
                "rules": [_rule(code, lang) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"PROJECTROOT": {"description": {"text": "The folder that was scanned."}}},
        "properties": {"target": report.target, "verdict": report.verdict.value},
        "results": [_result(finding, index, seen, lang) for finding in shown],
    }
    if len(ordered) > len(shown) or report.failures:
        notifications = [
            {"level": "error", "message": {"text": f"{failure.path}: {failure.what.strip().splitlines()[-1]}"}}
            for failure in report.failures
        ]
        if len(ordered) > len(shown):
            text = f"{len(ordered) - len(shown)} more findings are left out; GitHub takes {MAX_RESULTS}."
            notifications.append({"level": "warning", "message": {"text": text}})
        run["invocations"] = [{"executionSuccessful": not report.failures, "toolExecutionNotifications": notifications}]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str, lang: str) -> dict[str, Any]:
    text = page(code, lang)
    return {
        "id": code,
        "name": text.name,
        "shortDescription": {"text": text.title},
        "fullDescription": {"text": text.body or text.title},
        "help": {"text": text.body or text.title},
        "properties": {"tags": [TITLES[family(code)].render("en")]},
    }


def _result(finding: Finding, index: dict[str, int], seen: dict[str, int], lang: str) -> dict[str, Any]:
    place = finding.location
    return {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": "error" if finding.blocker else _LEVELS[finding.grade],
        "message": {"text": finding.message.render(lang)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {
                        "uri": quote(place.path, errors="surrogateescape"),
                        "uriBaseId": "PROJECTROOT",
                    },
                    "region": {
                        "startLine": place.line,
                        "startColumn": place.column,
                        "endLine": place.end_line,
                        "endColumn": max(place.end_column, place.column + (place.line == place.end_line)),
                    },
                }
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(finding, seen)},
        "properties": {"grade": finding.grade.value, "blocker": finding.blocker},
    }


def _fingerprint(finding: Finding, seen: dict[str, int]) -> str:
    """Return a hash that stays when lines above change: of the rule, the file, the text, and its number in the file."""
    key = "\0".join((finding.code, finding.location.path, finding.snippet))
    seen[key] = seen.get(key, 0) + 1
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32] + f":{seen[key]}"
