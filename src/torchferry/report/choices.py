"""The ways to settle a decision, the recommended one first, each with what it costs."""

from __future__ import annotations

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import Message, noted, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.recorded_decisions import ACCEPT, FIX
from torchferry.report.decisions import ReportedDecision
from torchferry.rules.attention.attention_package import ATTENTION_PACKAGES, plain_attention_speed
from torchferry.rules.decisions import is_decided_by


class DecisionChoice(NamedTuple):
    """One way to settle a decision.

    Attributes:
        name: What `torchferry decide` calls it; empty for what a person does in the code or on the machine.
        text: What it means.
        cost: What it costs.
    """

    name: str
    text: Message
    cost: Message


def choices_of(decision: ReportedDecision, target: str) -> list[DecisionChoice]:
    """Return the ways to settle a decision.

    Args:
        decision: The decision.
        target: The target of its report, as `NAME` or `NAME@VERSION`.
    """
    return [
        *_edits(decision),
        *_other_packages(decision, target),
        *_without(decision),
        *_acceptance(decision),
    ]


def can_be_accepted(decision: ReportedDecision) -> bool:
    """Whether somebody can decide that its places stay: not where a program stops, nor of what is no place of code."""
    is_of_code = bool(decision.findings) and all(is_decided_by(each, ACCEPT) for each in decision.findings)
    return is_of_code and not decision.stopped


def _edits(decision: ReportedDecision) -> list[DecisionChoice]:
    """Return the edits that torchferry has for places of a decision."""
    if not _has_edits(decision):
        return []
    fixed = sum(is_decided_by(finding, FIX) for finding in decision.findings)
    text = say("take the fixes of torchferry, after reading them (`--diff` shows them)")
    left = len(decision.places) - fixed
    cost = _places(fixed)
    if left > 0:
        cost = say("{places}; {left} more by hand", places=cost, left=left)
    return [DecisionChoice(FIX, text, cost)]


def _has_edits(decision: ReportedDecision) -> bool:
    return any(is_decided_by(finding, FIX) for finding in decision.findings)


def _other_packages(decision: ReportedDecision, target: str) -> list[DecisionChoice]:
    """Return what the target has in place of a package, or else the change that the text of the decision tells of."""
    if _has_edits(decision):
        return []
    chosen = Target.named(target)
    places = _places(len(decision.places))
    package = next((name for name in _packages_of(decision) if name in cuda.packages()), "")
    choices = []
    row = chosen.row("packages", package) if package else None
    if row is not None and row.use:
        use = noted(say("use `{use}` in place of `{package}`", use=row.use, package=package), row.remark)
        choices.append(DecisionChoice("", use, places))
    else:
        choices.append(DecisionChoice("", say("change the code as the text above says"), places))
    speed = plain_attention_speed(chosen) if package in ATTENTION_PACKAGES else None
    if speed is not None:
        plain = say("call `torch.nn.functional.scaled_dot_product_attention` in place of `{package}`", package=package)
        choices.append(DecisionChoice("", plain, say("{places}; {speed}", places=places, speed=speed)))
    return choices


def _packages_of(decision: ReportedDecision) -> tuple[str, ...]:
    """Return the packages that a decision is about."""
    return tuple(dict.fromkeys(name for each in decision.findings for name in (each.package, each.lacks) if name))


def _without(decision: ReportedDecision) -> list[DecisionChoice]:
    """Return how its programs do without what the target lacks, where not one of them always needs it."""
    if decision.stopped or not decision.undecided:
        return []
    text = say("start the programs so that they do not reach it (the conditions stand under “How programs reach it”)")
    return [DecisionChoice("", text, say("no code changes; you have to check each run"))]


def _acceptance(decision: ReportedDecision) -> list[DecisionChoice]:
    if not can_be_accepted(decision):
        return []
    cost = say("no code changes; reports keep saying that you have accepted it")
    return [DecisionChoice(ACCEPT, say("leave it as it is"), cost)]


def _places(count: int) -> Message:
    return say_plural("a change in one place", "changes in {count} places", count=count)
