"""From what the rules of one file found to its findings: the one place after the rules in which grades change.

The steps, in this order; each that changes a grade records it in the finding (`Finding.regradings`):

1. With the redirect, what it does when the program runs is a note.
2. In code for every device, what belongs to one machine is not written (`portable.py`), nor what torch has no word for,
   nor a call that TorchScript cannot compile, nor what would import the project's own module before Python can find it.
3. Conditions and what they guard are put into groups (`guards.py`).
4. Each place is given its anchor (`anchors.py`), which counts those too that are silenced.
5. What people decided about places is applied to them (`decisions.py`).
6. What comments or settings silence is left out, and each group is settled: whole or not at all (`groups.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from torchferry.backends.accelerator import AcceleratorTarget
from torchferry.backends.target import Target
from torchferry.core.finding import LINK, Effect, Finding, Grade, Stage
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.anchors import anchored
from torchferry.rules.base import Context, PythonContext
from torchferry.rules.decisions import decided
from torchferry.rules.family import Subject, UnderRedirect
from torchferry.rules.file_result import Selection
from torchferry.rules.groups import resolve_groups
from torchferry.rules.guards import bind
from torchferry.rules.portable import below_path_changes, by_torch_alone, outside_torchscript, without_vendor
from torchferry.rules.registry import rule_facts
from torchferry.rules.suppression.unused_suppression import UnusedSuppression
from torchferry.source.suppress import Suppression, Suppressions, suppressions


class Circumstances(NamedTuple):
    """What the steps depend on besides the file.

    Attributes:
        target: Where the code is to run, or what it is to be portable with.
        selection: What the user wants to hear of.
        binding: Codes of the rules whose places fail, or answer no, where there is no CUDA.
        redirected: Whether the redirect is in force.
    """

    target: Target
    selection: Selection
    binding: frozenset[str]
    redirected: bool


def run_pipeline(context: Context, reported: Sequence[Finding], circumstances: Circumstances) -> tuple[Finding, ...]:
    """Return the findings of a file in order of position: graded, grouped, and without those that are silenced."""
    findings = list(reported)
    if circumstances.redirected:
        findings = [covered(finding) for finding in findings]
    if circumstances.target.module:
        findings = _portable(context, findings, circumstances.target)
    staying: dict[str, Message] = {}
    # with the redirect a condition on CUDA stays true, and binds nothing
    if isinstance(context, PythonContext) and findings and not circumstances.redirected:
        findings, staying = bind(context, findings, circumstances.binding)
    comments = Suppressions(suppressions(context.source))
    findings += _unused(context, findings, comments)
    placed = [decided(finding, circumstances.selection.decided) for finding in anchored(findings, context)]
    return tuple(resolve_groups(placed, comments, circumstances.selection, staying))


def _portable(context: Context, findings: list[Finding], target: Target) -> list[Finding]:
    is_python = isinstance(context, PythonContext)
    findings = [without_vendor(finding, is_python, target.module) for finding in findings]
    if is_python and isinstance(target, AcceleratorTarget):
        findings = by_torch_alone(findings)
    if isinstance(context, PythonContext):
        findings = outside_torchscript(context, findings)
    if is_python and target.needs_path(context.path):
        return below_path_changes(findings, context.text)
    return findings


def _unused(context: Context, findings: Sequence[Finding], comments: Suppressions) -> list[Finding]:
    """Return findings about the comments that silence nothing."""
    used = {
        comment
        for finding in findings
        for comment in comments.covering(finding.code, finding.location.line, finding.location.end_line)
    }
    return [
        UnusedSuppression().at(context, comment)
        for comment in comments.all
        if comment not in used and not _is_of_run(comment)
    ]


def _is_of_run(comment: Suppression) -> bool:
    """Whether a comment speaks of nothing but what runs see, which is not known here."""
    return bool(comment.codes) and all(rule_facts(code).about is Subject.RUN for code in comment.codes)


def covered(finding: Finding) -> Finding:
    """Return a finding as it is where the redirect is in force.

    A name of torch that would be rewritten is redirected. One that the card lacks raises under the redirect as well, so
    such a finding stays; so do other languages, environment variables, libraries, kernels and packages of them.
    """
    left = rule_facts(finding.code).under_redirect
    stays = left is UnderRedirect.ALL or (left is UnderRedirect.WHAT_IS_NOT_RENAMED and not finding.edits)
    if finding.message is LINK or finding.grade is Grade.NOTE or stays:
        return finding
    message = say("{message} (the redirect does this when the program runs)", message=finding.message)
    changed = finding.regraded(Stage.REDIRECT, Grade.NOTE, message, Effect.NOTHING)
    return changed._replace(group="", needs=(), blocker=False)
