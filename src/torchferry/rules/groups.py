"""Findings that change together: which of them may change once suppressions and choices are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from torchferry.core.finding import LINK, Edit, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.examined import Selection
from torchferry.source.suppress import Suppression

_WORSE = {Grade.NOTE: 0, Grade.SAFE: 1, Grade.UNSAFE: 2, Grade.MANUAL: 3}


def settle_groups(
    findings: list[Finding],
    comments: list[Suppression],
    selection: Selection,
    staying: Mapping[str, Message] = MappingProxyType({}),
) -> list[Finding]:
    """Leave out what the user does not want to hear of, and make each group as cautious as its worst member.

    A group with a member that cannot be changed, or that the user keeps from being changed, is not changed at
    all; nor is what needs it. A group of which a part stays on purpose stays whole, and asks for no decision.
    """
    resting = dict(staying)
    blocked: dict[str, Message] = {}
    doubted: dict[str, Message] = {}
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
        if finding.group and finding.grade is Grade.UNSAFE:
            doubted.setdefault(finding.group, say("line {line} changes with it and may be wrong", line=place.line))
        if finding.group and _WORSE[finding.grade] > _WORSE[grades.get(finding.group, Grade.NOTE)]:
            grades[finding.group] = finding.grade
    _spread(findings, blocked)
    _spread(findings, resting)
    return [_settled(finding, blocked, resting, doubted, grades) for finding in wanted if finding.message is not LINK]


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


def _settled(
    finding: Finding,
    blocked: dict[str, Message],
    resting: dict[str, Message],
    doubted: dict[str, Message],
    grades: dict[str, Grade],
) -> Finding:
    if not finding.edits:
        return finding
    groups = (finding.group, *finding.needs)
    for reasons, worst in ((resting, Grade.NOTE), (blocked, Grade.MANUAL)):
        reason = next((reasons[group] for group in groups if group in reasons), None)
        if reason is not None:
            return finding._replace(grade=worst, edits=(), imports=(), message=_because(finding, reason))
    grade = max((grades.get(group, finding.grade) for group in groups), key=_WORSE.__getitem__)
    if _WORSE[grade] <= _WORSE[finding.grade]:
        return finding
    reason = next((doubted[group] for group in groups if group in doubted), None)
    return finding._replace(grade=grade, message=finding.message if reason is None else _because(finding, reason))


def _because(finding: Finding, reason: Message) -> Message:
    return say("{message} ({reason})", message=finding.message, reason=reason)


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
