"""The ways to settle a decision, the recommended one first, each with what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.finding import Anchor, Finding
from torchferry.core.messages import Bilingual, Message, noted, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.recorded_decisions import ACCEPT, FIX, DecidedPlace
from torchferry.report.decisions import ReportedDecision
from torchferry.rules.attention.attention_package import ATTENTION_PACKAGES, plain_attention_speed
from torchferry.rules.decisions import is_decided_by
from torchferry.rules.family import Subject
from torchferry.rules.registry import rule_facts

_VERBS = frozenset({
    "allocate", "ask", "build", "call", "catch", "check", "choose", "compile", "draw", "install", "keep", "leave",
    "load", "look", "move", "name", "pass", "pin", "port", "quantise", "read", "register", "remove", "replace",
    "run", "set", "simulate", "take", "train", "try", "turn", "use", "write",
})  # fmt: skip
"""What a part of a remark of a table begins with that says what to do, such as `use the CPU build of torch`."""

_LONGEST_TOLD = 64
"""Characters of such a part that is in a row above the text that says it too."""


class DecisionChoice(NamedTuple):
    """One way to settle a decision.

    Attributes:
        name: What `torchferry decide` calls it; empty for what a person does in the code or on the machine.
        text: What it means.
        cost: What it costs.
        brief: What it is in few words, as a list of decisions has it.
        is_told: Whether the text of the decision says this too.
        shortest: What it is where that text is below; None for what it is in few words.
    """

    name: str
    text: Message
    cost: Message
    brief: Message
    is_told: bool = False
    shortest: Message | None = None


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


def decided_places(decision: ReportedDecision, choice: str) -> frozenset[DecidedPlace]:
    """Return the places of a decision that a choice, `accept` or `fix`, settles, as they are recorded."""
    return frozenset(
        DecidedPlace(finding.location.path, finding.code, finding.anchor)
        for finding in decision.findings
        if is_decided_by(finding, choice)
    )


def changing_with(findings: Iterable[Finding], decision: ReportedDecision) -> frozenset[tuple[str, str, Anchor]]:
    """Return the keys of the findings that change when the edits of a decision are made: its own, and their groups.

    Args:
        findings: Those of its report.
        decision: The decision.
    """
    chosen = [each for each in decision.findings if is_decided_by(each, FIX)]
    keys = {each.key for each in chosen}
    groups = {(each.location.path, group) for each in chosen for group in (each.group, *each.needs) if group}
    of_groups = [each for each in findings if each.edits and (each.group or each.needs)]
    is_more = True
    while is_more:
        more = [each for each in of_groups if (each.location.path, each.group) in groups and each.key not in keys]
        keys |= {each.key for each in more}
        groups |= {(each.location.path, need) for each in more for need in each.needs}
        is_more = bool(more)
    return frozenset(keys)


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
    return [DecisionChoice(FIX, text, cost, say("{text}", text=FIX))]


def _has_edits(decision: ReportedDecision) -> bool:
    return any(is_decided_by(finding, FIX) for finding in decision.findings)


def _other_packages(decision: ReportedDecision, target: str) -> list[DecisionChoice]:
    """Return what the target has in place of a package, or else the change that the text of the decision tells of."""
    if _has_edits(decision):
        return []
    chosen = Target.named(target)
    places = _places(len(decision.places))
    package = next((name for name in _packages_of(decision) if name in cuda.packages()), "")
    facts = rule_facts(decision.code)
    row = chosen.row("packages", package) if package else None
    if row is not None and row.use:
        replaced = noted(say("use `{use}` in place of `{package}`", use=row.use, package=package), row.remark)
        brief = say("use `{use}`", use=row.use)
        if package in ATTENTION_PACKAGES:  # it has other functions, too
            brief = say("attention calls: {answer}", answer=brief)
        choices = [DecisionChoice("", replaced, places, brief)]
    else:
        use = None if facts.about is Subject.COMPILED else _use_in(decision.message)  # such code is ported first
        advice = _advice_in(decision.message) or (None if row is None else row.remark)
        changed = say("change the code as the text above says")
        own = dict(decision.message.values).get("answer")
        answers = facts.answers[1:] if facts.needs_counterpart else facts.answers
        answer = use if use is not None or not isinstance(own, Message) else own
        if answer is not None:
            choices = [DecisionChoice("", answer, places, answer)]
        elif facts.answers and not (package and advice):
            choices = [_told(advice, changed, places)] if advice is not None and facts.needs_counterpart else []
            choices += [DecisionChoice("", each, places, each) for each in answers]
        elif advice is not None:
            choices = [_told(advice, changed, places)]
            if decision.stopped and facts.about in (Subject.PACKAGE, Subject.ATTENTION):
                name = package or next(iter(_packages_of(decision)), decision.id)
                choices += _without_package(name, places, is_told=_what_to_do(advice) is not None)
        else:
            choices = [DecisionChoice("", changed, places, say("change the code"))]
    speed = plain_attention_speed(chosen) if package in ATTENTION_PACKAGES else None
    if speed is not None:
        plain = say("call `torch.nn.functional.scaled_dot_product_attention` in place of `{package}`", package=package)
        cost = say("{places}; {speed}", places=places, speed=speed)
        choices.append(DecisionChoice("", plain, cost, say("`scaled_dot_product_attention`")))
    return choices


def _told(advice: Bilingual, changed: Message, cost: Message) -> DecisionChoice:
    """Return the choice to do what the text of a decision says."""
    part = _what_to_do(advice)
    if part is None:
        brief = say("change the code ({why})", why=_why_to_change(advice))
        return DecisionChoice("", changed, cost, brief, is_told=True, shortest=say("change the code"))
    brief = say("{text}", text=Bilingual(part.en.partition(": ")[0], part.zh.partition("：")[0]))
    first = Bilingual(part.en.partition(", ")[0], part.zh.partition("，")[0])
    shortest = say("{text}", text=first) if len(first.en) <= _LONGEST_TOLD else say("change the code as below")
    return DecisionChoice("", changed, cost, brief, is_told=True, shortest=shortest)


def _without_package(package: str, cost: Message, *, is_told: bool) -> Iterator[DecisionChoice]:
    """Yield how the code does without a package that has no other in its place.

    Args:
        package: The package.
        cost: What a change of its places costs.
        is_told: Whether the text of the decision says what to do in its place.
    """
    if not is_told:
        text = say("write what the project takes from `{package}` in torch operators", package=package)
        yield DecisionChoice("", text, cost, say("write it in torch operators"))
    text = say("take out of the project what needs `{package}`", package=package)
    yield DecisionChoice("", text, cost, say("leave out what needs it"))


def _use_in(message: Message) -> Message | None:
    """Return what the text of a decision says to use, where it comes from a table; None for nothing."""
    for name, value in message.values:
        is_used = name == "use" and isinstance(value, str) and value
        advised = _use_in(value) if isinstance(value, Message) else say("use `{use}`", use=value) if is_used else None
        if advised is not None:
            return advised
    return None


def _advice_in(message: Message) -> Bilingual | None:
    """Return the remark of a table in the text of a decision; None for none."""
    for name, value in message.values:
        advised = _advice_in(value) if isinstance(value, Message) else value
        if isinstance(advised, Bilingual) and name != "target":
            return advised
    return None


def _parts(remark: Bilingual) -> list[Bilingual]:
    """Return the parts of a remark between semicolons; where its Chinese has other parts, each has all of that."""
    english, chinese = remark.en.split("; "), remark.zh.split("；")
    alike = len(chinese) == len(english)
    return [Bilingual(en.removeprefix("else "), chinese[at] if alike else remark.zh) for at, en in enumerate(english)]


def _what_to_do(remark: Bilingual) -> Bilingual | None:
    """Return the part of a remark that says what to do; None for none."""
    return next((part for part in _parts(remark) if _is_instruction(part.en)), None)


def _is_instruction(text: str) -> bool:
    first, _, rest = text.partition(" ")
    return first in _VERBS and not (first == "set" and rest.startswith("for "))  # set for NCCL: what it was set for


def _why_to_change(remark: Bilingual) -> Bilingual:
    """Return the part of a remark that says what must be done, or else all of it."""
    needed = next((part for part in _parts(remark) if " must " in part.en), remark)
    clause = needed.en.rpartition(", ")[2]
    if " must " in clause:
        return Bilingual(clause, needed.zh.rpartition("，")[2])
    for english, chinese in (("; ", "；"), (", ", "，")):  # a long one: how it begins
        if len(needed.en) > _LONGEST_TOLD:
            needed = Bilingual(needed.en.partition(english)[0], needed.zh.partition(chinese)[0])
    return needed


def _packages_of(decision: ReportedDecision) -> tuple[str, ...]:
    """Return the packages that a decision is about."""
    return tuple(dict.fromkeys(name for each in decision.findings for name in (each.package, each.lacks) if name))


def _without(decision: ReportedDecision) -> list[DecisionChoice]:
    """Return how the project does without what the target lacks, where that is more than a change of the code."""
    if decision.undecided and not decision.stopped:
        text = say(
            "start the programs so that they do not reach it (the conditions stand under “How programs reach it”)"
        )
        cost = say("no code changes; you have to check each run")
        package = next(iter(_packages_of(decision)), "")
        brief = say("start without `{what}`", what=package) if package else say("start without it")
        return [DecisionChoice("", text, cost, brief)]
    if rule_facts(decision.code).about is Subject.COMPILED:
        text = say("build and run the project without it, if it can")
        return [DecisionChoice("", text, _places(len(decision.places)), say("build without the CUDA code"))]
    return []


def _acceptance(decision: ReportedDecision) -> list[DecisionChoice]:
    if not can_be_accepted(decision):
        return []
    cost = say("no code changes; reports keep saying that you have accepted it")
    return [DecisionChoice(ACCEPT, say("leave it as it is"), cost, say("{text}", text=ACCEPT))]


def _places(count: int) -> Message:
    return say_plural("a change in one place", "changes in {count} places", count=count)
