"""The way from a scan to an accepted port, as a list to tick off: phases, the project's own counts, commands.

No step says how long it takes: a scan does not know that. The phases are those of migration guides of vendors and
their users: environment with the baseline that everything is judged by, code, libraries and operators, verification,
tuning, and the hand-over where a zoo of the vendor takes models.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from torchferry.backends.handover_forms import forms_for
from torchferry.backends.requests import request_facts
from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade
from torchferry.core.json_text import json_text
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.programs.model import Form
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import Report
from torchferry.report.programs import verdict_of
from torchferry.rules.attention.attention_package import plain_attention_speed
from torchferry.rules.family import Subject
from torchferry.rules.registry import families, rule_facts

PLAN_SCHEMA = 1
PLAN_KIND = "torchferry plan"

_MOST_PROGRAMS = 12
_MOST_FILES = 5


class PlanStep(NamedTuple):
    """One step.

    Attributes:
        text: What is to be done.
        command: What does it; empty where a person does.
        amount: How many things it is about; None where nothing is counted.
        details: Lines below it, such as files.
    """

    text: Message
    command: str = ""
    amount: int | None = None
    details: tuple[Message, ...] = ()


class PlanPhase(NamedTuple):
    """A phase and its steps."""

    name: str
    title: Message
    steps: tuple[PlanStep, ...]


def plan_of(report: Report, path: str, target: str) -> list[PlanPhase]:
    """Return the plan of a project.

    Args:
        report: The scan of the whole project.
        path: The project, as it was named on the command line.
        target: The target, as it was named.
    """
    place = shlex.quote(path)
    phases = {
        "environment": (say_in("phase", "Environment"), _environment(target)),
        "code": (say_in("phase", "Code"), _code(report, place, target)),
        "libraries": (say_in("phase", "Libraries"), _libraries(report, place, target)),
        "verification": (say_in("phase", "Verification"), _verification(report, path, target)),
        "tuning": (say_in("phase", "Tuning"), _tuning()),
        "handover": (say_in("phase", "Hand-over"), _handing_over(path, target)),
    }
    planned = [PlanPhase(name, title, tuple(steps)) for name, (title, steps) in phases.items()]
    return [phase for phase in planned if phase.steps]


def _environment(target: str) -> Iterator[PlanStep]:
    yield PlanStep(say("the plugin, torch and the driver fit together"), f"torchferry backend show {target}")
    yield PlanStep(say("the machine with the card is ready"), f"torchferry doctor --target {target} --probe")
    text = say("say which source, variant, data and metric are migrated, and what is accepted")
    yield PlanStep(text, "torchferry accept init")
    text = say("measure the metric and the losses with CUDA or on the CPU, before anything is changed")
    yield PlanStep(text, f"torchferry accept --target {target} --baseline")


def _code(report: Report, place: str, target: str) -> Iterator[PlanStep]:
    grades = report.by_grade
    for judged in report.programs[:_MOST_PROGRAMS]:
        title, verdict = judged.program.title, verdict_of(judged)
        yield PlanStep(say("the program {name}: {verdict}", name=title, verdict=verdict))
    if len(report.programs) > _MOST_PROGRAMS:
        yield PlanStep(say("... and {count} more", count=len(report.programs) - _MOST_PROGRAMS))
    migrate = f"torchferry migrate {place} --target {target}"
    if grades[Grade.SAFE]:
        count = grades[Grade.SAFE]
        yield PlanStep(say_plural("apply {count} safe fix", "apply {count} safe fixes", count=count), migrate, count)
    if grades[Grade.UNSAFE]:
        count = grades[Grade.UNSAFE]
        text = say_plural("read {count} fix, then apply it", "read {count} fixes, then apply them", count=count)
        yield PlanStep(text, f"{migrate} --unsafe-fixes", count)
    decisions = [finding for finding in report.findings if finding.grade is Grade.MANUAL and not finding.blocker]
    if decisions:
        text = say_plural("decide about {count} place", "decide about {count} places", count=len(decisions))
        scan = f"torchferry scan {place} --target {target}"
        yield PlanStep(text, scan, len(decisions), tuple(_by_file(decisions)))
    if report.blockers:
        text = say_plural("settle {count} thing that blocks", "settle {count} things that block",
                          count=len(report.blockers))  # fmt: skip
        yield PlanStep(text, "", len(report.blockers), tuple(_by_file(report.blockers)))
    if not report.work and not report.blockers:
        yield PlanStep(say("nothing has to change in the code"), "", 0)


def _by_file(findings: list[Finding]) -> Iterator[Message]:
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.location.path] = counts.get(finding.location.path, 0) + 1
    ordered = sorted(counts, key=lambda path: (-counts[path], path))
    for path in ordered[:_MOST_FILES]:
        yield say("{path}: {count}", path=path, count=counts[path])
    if len(ordered) > _MOST_FILES:
        yield say("... and {count} more", count=len(ordered) - _MOST_FILES)


def _libraries(report: Report, place: str, target: str) -> Iterator[PlanStep]:
    places = [finding for finding in report.work if rule_facts(finding.code).about.is_of_others]
    if places:
        families_of_others = ",".join(name for name, family in families().items() if family.about.is_of_others)
        text = say_plural(
            "{count} place is about a third-party package",
            "{count} places are about third-party packages",
            count=len(places),
        )
        yield PlanStep(text, f"torchferry scan {place} --target {target} --select {families_of_others}", len(places))
    attention = sum(rule_facts(finding.code).about is Subject.ATTENTION for finding in report.findings)
    if attention:
        speed = plain_attention_speed(Target.named(target))
        text = say_plural("{count} place asks for attention kernels of CUDA",
                          "{count} places ask for attention kernels of CUDA", count=attention)  # fmt: skip
        yield PlanStep(text, "", attention, () if speed is None else (speed,))
    lacking = sorted({finding.lacks for finding in report.findings if finding.lacks})
    if lacking:
        text = say_plural("the target lacks {count} package: {names}", "the target lacks {count} packages: {names}",
                          count=len(lacking), names=", ".join(lacking))  # fmt: skip
        yield PlanStep(text, "", len(lacking))
    unverified = sorted({item.package for judged in report.programs for item in judged.unverified})
    if unverified:
        text = say_plural("nobody has verified {count} package on the target: {names}",
                          "nobody has verified {count} packages on the target: {names}",
                          count=len(unverified), names=", ".join(unverified))  # fmt: skip
        yield PlanStep(text, "", len(unverified))
    if not report.packages:
        text = say("examine the packages that are installed")
        yield PlanStep(text, f"torchferry scan {place} --target {target} --python ENVIRONMENT")
    if report.native is not None:
        kernels = len(report.native.kernels)
        text = say_plural("port {count} kernel of CUDA C++", "port {count} kernels of CUDA C++", count=kernels)
        yield PlanStep(text, report.native.command, kernels)
    text = say("find the operators that are needed and that the target lacks")
    yield PlanStep(text, f"torchferry ops report --target {target} -- python PROGRAM")
    if request_facts(Target.named(target).backend).where:
        text = say("ask the vendor for those that are missing, with its own form")
        yield PlanStep(text, f"torchferry ops request --target {target} --model FILE.py:FUNCTION -o request.md")


def _verification(report: Report, path: str, target: str) -> Iterator[PlanStep]:
    scripts = [judged.program.path for judged in report.programs if judged.program.form is Form.SCRIPT]
    for program in scripts[:_MOST_PROGRAMS]:
        file = shlex.quote(program if path in (".", "") else f"{path.rstrip('/')}/{program}")
        yield PlanStep(
            say("run {name} on the simulated card", name=program),
            f"torchferry rehearse --target {target} -- python {file}",
        )
    if not scripts:
        yield PlanStep(say("run it on the simulated card"), f"torchferry rehearse --target {target} -- COMMAND")
    yield PlanStep(say("compare the losses of both machines"), "torchferry compare curves CUDA.log CARD.log")
    yield PlanStep(say("find where the precision is lost"), "torchferry compare -- python PROGRAM")
    yield PlanStep(say("find where NaN and infinities come from"), "torchferry nan -- python PROGRAM")
    yield PlanStep(say("accept the port on the card"), f"torchferry accept --target {target}")


def _tuning() -> Iterator[PlanStep]:
    yield PlanStep(say("record where the time goes, on both machines"), "torchferry profile record -- COMMAND")
    yield PlanStep(say("compare them part by part"), "torchferry profile compare CUDA.json CARD.json")


def _handing_over(path: str, target: str) -> Iterator[PlanStep]:
    place = shlex.quote(path)
    for form in forms_for(target.partition("@")[0]):
        text = say("hand the model over by the rules of {form}", form=form)
        yield PlanStep(text, f"torchferry handover --for {form} -o handover {place}")


def plan_text(report: Report, phases: list[PlanPhase], lang: str) -> str:
    """Return the plan as a list to tick off, which is Markdown."""
    head = say("Plan for {root} on {target}", root=visible(report.root), target=report.target_title).render(lang)
    lines = [f"# {head}", "", visible(verdict_sentence(report).render(lang))]
    for number, phase in enumerate(phases, 1):
        lines += ["", f"## {number}. {phase.title.render(lang)}", ""]
        for step in phase.steps:
            lines.append(f"- [ ] {visible(step.text.render(lang))}")
            lines += [f"  - {visible(detail.render(lang))}" for detail in step.details]
            if step.command:
                lines.append(f"      `{visible(step.command)}`")
    return "\n".join(lines) + "\n"


def plan_json(report: Report, phases: list[PlanPhase], lang: str) -> str:
    """Return the plan as JSON."""
    return json_text(
        {
            "kind": PLAN_KIND,
            "schema": PLAN_SCHEMA,
            "torchferry": report.torchferry,
            "target": report.target,
            "root": report.root,
            "verdict": report.verdict.value,
            "counts": {grade.value: count for grade, count in sorted(report.by_grade.items())},
            "programs": len(report.programs),
            "phases": [_phase_object(phase, lang) for phase in phases],
        }
    )


def _phase_object(phase: PlanPhase, lang: str) -> dict[str, Any]:
    return {
        "name": phase.name,
        "title": phase.title.render(lang),
        "steps": [
            {
                "text": step.text.render(lang),
                "command": step.command,
                "count": step.amount,
                "details": [detail.render(lang) for detail in step.details],
            }
            for step in phase.steps
        ],
    }
