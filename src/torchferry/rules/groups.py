"""Findings that change together: which of them may change once suppressions and choices are known."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from torchferry.core.finding import LINK, Edit, Effect, Finding, Grade, Stage
from torchferry.core.messages import Message, say
from torchferry.rules.file_result import Selection
from torchferry.source.suppress import Suppressions

_WORSE = {Grade.NOTE: 0, Grade.SAFE: 1, Grade.UNSAFE: 2, Grade.MANUAL: 3}


def resolve_groups(
    findings: list[Finding],
    comments: Suppressions,
    selection: Selection,
    staying: Mapping[str, Message] = MappingProxyType({}),
) -> list[Finding]:
    """Leave out what the user does not want to hear of, and make each group as cautious as its worst member.

    A group with a member that cannot be changed, or that the user keeps from being changed, is not changed at
    all; nor is what needs it. A group of which a part stays on purpose stays whole, and needs no decision.
    """
    frozen = dict(staying)
    blocked: dict[str, Message] = {}
    uncertain: dict[str, Message] = {}
    grades: dict[str, Grade] = {}
    wanted: list[Finding] = []
    for finding in findings:
        place = finding.location
        silenced = not selection.wants(finding.code, place.path) or bool(
            comments.covering(finding.code, place.line, place.end_line)
        )
        if not silenced:
            wanted.append(finding)
        if finding.group and finding.stays is not None:
            frozen.setdefault(finding.group, _blocking(finding, silenced=False))
        if finding.group and (silenced or finding.grade is Grade.MANUAL):
            blocked.setdefault(finding.group, _blocking(finding, silenced))
        if finding.group and finding.grade is Grade.UNSAFE:
            uncertain.setdefault(
                finding.group, say("line {line} changes with it, and that is a fix to read", line=place.line)
            )
        if finding.group and _WORSE[finding.grade] > _WORSE[grades.get(finding.group, Grade.NOTE)]:
            grades[finding.group] = finding.grade
    _spread(findings, blocked)
    _spread(findings, frozen)
    return [_resolved(finding, blocked, frozen, uncertain, grades) for finding in wanted if finding.message is not LINK]


def _spread(findings: list[Finding], blocked: dict[str, Message]) -> None:
    """Block the groups that need a blocked one, until there are no more."""
    dependents: dict[str, list[str]] = {}
    for finding in findings:
        if finding.group:
            group = [finding.group]
            for need in finding.needs:  # of a function that is left early at many places, as many for each
                if need in dependents:
                    dependents[need] += group
                else:
                    dependents[need] = [*group]
    waiting = deque(blocked)
    while waiting:
        need = waiting.popleft()
        for name in dependents.get(need, ()):
            if name not in blocked:
                blocked[name] = blocked[need]
                waiting.append(name)


def _blocking(finding: Finding, silenced: bool) -> Message:
    line = finding.location.line
    if silenced:
        return say("line {line} would have to change with it but is kept", line=line)
    return say("line {line} would have to change with it but cannot", line=line)


def _resolved(
    finding: Finding,
    blocked: dict[str, Message],
    frozen: dict[str, Message],
    uncertain: dict[str, Message],
    grades: dict[str, Grade],
) -> Finding:
    if not finding.edits:
        return finding
    groups = (finding.group, *finding.needs)
    for reasons, worst in ((frozen, Grade.NOTE), (blocked, Grade.MANUAL)):
        reason = next((reasons[group] for group in groups if group in reasons), None)
        if reason is not None:
            effect = Effect.NOTHING if worst is Grade.NOTE else None  # what stays on purpose does what it is for
            return finding.regraded(Stage.GROUP, worst, _because(finding, reason), effect)
    of_groups = {*map(grades.get, groups)}
    grade = max((finding.grade if of_group is None else of_group for of_group in of_groups), key=_WORSE.__getitem__)
    if _WORSE[grade] <= _WORSE[finding.grade]:
        return finding
    reason = next((uncertain[group] for group in groups if group in uncertain), None)
    return finding.regraded(Stage.GROUP, grade, finding.message if reason is None else _because(finding, reason))


def _because(finding: Finding, reason: Message) -> Message:
    return say("{message} ({reason})", message=finding.message, reason=reason)


def without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings whose edits do not touch one another; the rest is found again in the next pass."""
    taken: list[Edit] = []  # in order of position, as are their ends, since they do not overlap
    ends: list[int] = []
    chosen = []
    for finding in findings:
        if any(_overlaps(edit, taken, ends) for edit in finding.edits):
            continue
        for edit in finding.edits:
            index = bisect_left(taken, edit)
            if index == len(taken) or taken[index] != edit:
                taken.insert(index, edit)
                ends.insert(index, edit.end)
        chosen.append(finding)
    return chosen


def _overlaps(edit: Edit, taken: list[Edit], ends: list[int]) -> bool:
    """Whether an edit touches the text of another one that is not the same."""
    index = bisect_right(ends, edit.start)
    while index < len(taken) and taken[index].start < edit.end:
        if taken[index] != edit:
            return True
        index += 1
    return False
