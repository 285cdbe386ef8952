"""Findings that change together: which of them may change once suppressions and choices are known."""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import LINK, Edit, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.examined import Selection
from torchferry.source.suppress import Suppression

_WORSE = {Grade.NOTE: 0, Grade.SAFE: 1, Grade.UNSAFE: 2, Grade.MANUAL: 3}


def settle_groups(findings: list[Finding], comments: list[Suppression], selection: Selection) -> list[Finding]:
    """Leave out what the user does not want to hear of, and make each group as cautious as its worst member.

    A group with a member that cannot be changed, or that the user keeps from being changed, is not changed at
    all; nor is what needs it.
    """
    blocked: dict[str, Message] = {}
    grades: dict[str, Grade] = {}
    wanted: list[Finding] = []
    for finding in findings:
        place = finding.location
        kept = not selection.wants(finding.code, place.path) or any(
            comment.covers(finding.code, place.line, place.end_line) for comment in comments
        )
        if not kept:
            wanted.append(finding)
        if finding.group and (kept or finding.grade is Grade.MANUAL):
            blocked.setdefault(finding.group, _blocking(finding, kept))
        if finding.group and _WORSE[finding.grade] > _WORSE[grades.get(finding.group, Grade.NOTE)]:
            grades[finding.group] = finding.grade
    _spread(findings, blocked)
    return [_settled(finding, blocked, grades) for finding in wanted if finding.message is not LINK]


def _spread(findings: list[Finding], blocked: dict[str, Message]) -> None:
    """Block the groups that need a blocked one, until there are no more."""
    while True:
        more = {
            finding.group: blocked[need]
            for finding in findings
            for need in finding.needs
            if finding.group and finding.group not in blocked and need in blocked
        }
        if not more:
            return
        blocked |= more


def _blocking(finding: Finding, kept: bool) -> Message:
    line = finding.location.line
    if kept:
        return say("line {line} changes with it and is to be kept", line=line)
    return say("line {line} changes with it and cannot", line=line)


def _settled(finding: Finding, blocked: dict[str, Message], grades: dict[str, Grade]) -> Finding:
    if not finding.edits:
        return finding
    groups = (finding.group, *finding.needs)
    for group in groups:
        if group in blocked:
            message = say("{message} ({reason})", message=finding.message, reason=blocked[group])
            return finding._replace(grade=Grade.MANUAL, edits=(), imports=(), message=message)
    grade = finding.grade
    for group in groups:
        grade = max(grade, grades.get(group, grade), key=_WORSE.__getitem__)
    return finding._replace(grade=grade)


def without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings whose edits do not touch one another; the rest is found again in the next pass."""
    taken: list[Edit] = []
    chosen = []
    for finding in findings:
        if all(_apart(edit, other) or edit == other for edit in finding.edits for other in taken):
            taken += finding.edits
            chosen.append(finding)
    return chosen


def _apart(one: Edit, other: Edit) -> bool:
    return one.end <= other.start or other.end <= one.start
