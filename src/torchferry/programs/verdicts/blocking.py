"""Which findings block, now that it is known what the programs come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.core.recorded_decisions import RecordedDecision
from torchferry.programs.model import JudgedProgram, Reachability, Verdict
from torchferry.rules.decisions import decided
from torchferry.rules.family import Subject
from torchferry.rules.registry import rule_facts


def blocking(
    findings: Iterable[Finding], programs: Sequence[JudgedProgram], decisions: Sequence[RecordedDecision] = ()
) -> Iterator[Finding]:
    """Yield findings that block only where a program reaches them.

    What compiles CUDA blocks where a program needs a compiled module. Without programs, findings stay as they are.

    Args:
        findings: What was found, also in rewritten files: each finding knows where its place was before.
        programs: The programs and what stops them, in the files as they were.
        decisions: What people decided about places: it holds where they block no more.
    """
    without = [
        item.call_path.reachability for judged in programs for item in judged.optional if _is_compiled(item.code)
    ]
    places = {obstacle.place for judged in programs for obstacle in judged.blockers}
    spared = {obstacle.place: obstacle.call_path.reachability for judged in programs for obstacle in judged.optional}
    lacking = {obstacle.what for judged in programs for obstacle in judged.blockers}
    compiled = any(_is_compiled(obstacle.code) for judged in programs for obstacle in judged.blockers)
    for finding in findings:
        place = finding.location if finding.origin is None else finding.origin
        comes = compiled if _is_compiled(finding.code) else _is_reached(finding, programs)
        needed = place in places or (comes and not finding.lacks)
        if finding.lacks and place in places:
            yield finding._replace(blocker=True)
        elif finding.blocker and programs and not needed:
            if finding.lacks not in lacking:
                reason = _reason(finding, spared.get(place) or _of_compiled(finding, without))
                finding = finding._replace(message=say("{message} ({reason})", message=finding.message, reason=reason))
            yield decided(finding._replace(blocker=False), decisions)
        else:
            yield finding


def _is_reached(finding: Finding, programs: Iterable[JudgedProgram]) -> bool:
    """Whether a program reaches the file of a finding."""
    return any(finding.location.path in judged.reached for judged in programs)


def _is_compiled(code: str) -> bool:
    return rule_facts(code).about is Subject.COMPILED


def _of_compiled(finding: Finding, without: Sequence[Reachability]) -> Reachability | None:
    """Return how surely a program comes to what a build script compiles, where one does at all."""
    return min(without, default=None) if _is_compiled(finding.code) and not finding.lacks else None


def _reason(finding: Finding, reachability: Reachability | None) -> Message:
    """Return why a finding stops no program."""
    if reachability is Reachability.GUARDED:
        return say("the code goes on without it")
    if reachability is Reachability.OPTION:
        return say("only with an option that is off")
    if reachability is Reachability.CHOSEN:
        return say("whether a program reaches it could not be resolved")
    if _is_compiled(finding.code) and not finding.lacks:
        return say("no program needs what it compiles")
    return say("no program reaches it")


def rewritten(programs: Iterable[JudgedProgram], remaining: Sequence[Finding]) -> Iterator[JudgedProgram]:
    """Yield the programs as they are when their files are rewritten: with the fixes and decisions that are left.

    Args:
        programs: The programs, judged by the files as they were.
        remaining: What is found in the rewritten files.
    """
    left = Counter(finding.location.path for finding in remaining if finding.grade in (Grade.SAFE, Grade.UNSAFE))
    asking = [finding for finding in remaining if finding.grade is Grade.MANUAL]
    places = {finding.location if finding.origin is None else finding.origin for finding in asking}
    for judged in programs:
        fixes = sum(left[path] for path in judged.reached)
        open_places = {*places, *judged.unresolved, *(doubt.place for doubt in judged.doubts)}
        decisions = tuple(place for place in judged.decisions if place in open_places)
        verdict = judged.verdict
        if verdict is Verdict.DECISIONS and not decisions:
            verdict = Verdict.WITHOUT if judged.optional else Verdict.FIXES
        if verdict is Verdict.FIXES and not fixes:
            verdict = Verdict.READY
        yield judged._replace(fixes=fixes, decisions=decisions, verdict=verdict)
