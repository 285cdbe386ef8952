"""CUDA C++ in scans and migrations: what there is to port, and findings about what is ported already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchferry.backends.kernel_table import kernel_table
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade, Stage, Stays
from torchferry.core.messages import say, say_plural
from torchferry.core.recorded_decisions import RecordedDecision
from torchferry.rules.analysis import Analysis
from torchferry.rules.decisions import decided
from torchferry.rules.family import WhenPorted
from torchferry.rules.registry import rule_facts

if TYPE_CHECKING:
    from torchferry.kernels.survey import NativeSurvey, SurveyedFile


def with_survey(
    analysis: Analysis, root: Path, target: Target, decisions: Sequence[RecordedDecision]
) -> tuple[Analysis, NativeSurvey | None]:
    """Return an analysis whose findings know what is ported, and what there is to port; None where there is nothing.

    Args:
        analysis: The project.
        root: Its folder.
        target: Where the code is to run.
        decisions: What people decided about places, which hold for the findings as they are here.
    """
    paths = [item.path for item in analysis.examined if any(map(_is_for_a_port, item.findings))]
    if not paths or kernel_table(target.backend) is None:
        return analysis, None
    from torchferry.kernels.survey import survey  # imported late: most projects have no C++

    native = survey(root, paths, target)
    ported = native.ported
    if not ported:
        return analysis, native
    examined = [
        item._replace(
            findings=tuple(decided(_judged_anew(each, ported, target), decisions) for each in item.findings),
            remaining=tuple(decided(_judged_anew(each, ported, target), decisions) for each in item.remaining),
        )
        for item in analysis.examined
    ]
    return analysis._replace(examined=examined), native


def _is_for_a_port(finding: Finding) -> bool:
    return rule_facts(finding.code).when_ported is not WhenPorted.STAYS


def _judged_anew(finding: Finding, ported: Mapping[str, SurveyedFile], target: Target) -> Finding:
    """Return a finding about a file as it is where the file is ported, or the kernels that it chooses are."""
    if finding.stays is Stays.KERNEL:
        predicate = target.backend.PREDICATE
        asked = f".{predicate}" if isinstance(predicate, str) else f'.device.type == "{target.backend.DEVICE_TYPE}"'
        message = say(
            "it chooses a kernel that is ported: unchanged, {target} takes the other branch, and the ported kernel "
            "never runs; ask for `{asked}` too, or for a device that is not the CPU",
            target=target.title,
            asked=asked,
        )
        return finding.regraded(Stage.PORT, Grade.MANUAL, message, Effect.WRONG)._replace(stays=None)
    file = ported.get(finding.location.path)
    if file is None or finding.lacks or finding.grade is Grade.NOTE:
        return finding
    when_ported = rule_facts(finding.code).when_ported
    if when_ported is WhenPorted.BUILDS_TOO:
        message = say("builds for {target} too: {message}", target=target.title, message=finding.message)
        return finding.regraded(Stage.PORT, Grade.NOTE, message, Effect.NOTHING)._replace(blocker=False)
    if when_ported is WhenPorted.STAYS:
        return finding
    if file.blocking:
        message = say_plural(
            "ported to {copy}, where a person has to look at {count} place",
            "ported to {copy}, where a person has to look at {count} places",
            copy=file.copy,
            count=file.blocking,
        )
        return finding._replace(blocker=False, message=message)
    message = say("ported to {copy}", copy=file.copy)
    if file.differs:
        message = say(
            "ported to {copy}, which is not what a port writes now: it was edited, made with rules of your own, or the "
            "original has changed since",
            copy=file.copy,
        )
    return finding.regraded(Stage.PORT, Grade.NOTE, message, Effect.NOTHING)._replace(blocker=False)
