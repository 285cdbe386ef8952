"""What a user reads of a plan and of a run: text for the terminal, Markdown for a page, JSON for programs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torchferry.backends.deployment import STAGES
from torchferry.core.messages import Message, display_width, say, say_in, say_plural
from torchferry.deploy.plan import LOGS, DeployPlan, PlannedStep
from torchferry.deploy.playbook import SURVEY, TreePlace
from torchferry.deploy.playing import HostOutcome, StepOutcome
from torchferry.deploy.records import RunRecord, outcome_row

_SIGNS = {"ok": "=", "changed": "+", "failed": "x", "unreachable": "x", "todo": "."}
_WORST = ("failed", "unreachable", "todo", "changed", "ok")

_WIDEST = 400
"""Letters of a line that are shown of what a step said: a progress bar can be of any length."""

_LEGEND = say("= nothing to do, + changed, . not done, x failed; a stage shows the worst of its steps")
_STATUSES = {
    "ok": say("nothing to do"),
    "changed": say("changed"),
    "failed": say_in("step of a deployment", "failed"),
    "unreachable": say("not reached"),
    "todo": say("not done"),
}


def status_text(status: str) -> Message:
    """Return a status as a reader sees it."""
    return _STATUSES[status]


def host_lines(hosts: Sequence[str], places: Mapping[str, TreePlace] | None, lang: str) -> Iterator[str]:
    """Yield to which hosts a run goes, and, where they pass files on, who sends to whom."""
    yield say_plural(
        "{count} host: {names}", "{count} hosts: {names}", count=len(hosts), names=", ".join(hosts)
    ).render(lang)
    senders: dict[str, list[str]] = {}
    for host, place in (places or {}).items():
        senders.setdefault(place.parent, []).append(host)
    for sender, receivers in senders.items():
        names = ", ".join(receivers)
        line = say("{host} sends to {names}", host=sender, names=names)
        yield "  " + (line if sender else say("this machine sends to {names}", names=names)).render(lang)


def plan_lines(plan: DeployPlan, lang: str) -> Iterator[str]:
    """Yield everything that a run may do on a host, command by command."""
    yield say("{product}: what `torchferry deploy run` does on each host", product=plan.facts.product).render(lang)
    yield ""
    yield say("Settings, which scripts see as variables:").render(lang)
    yield from (f"  {line}" for line in plan.settings.text().splitlines())
    for planned in plan.planned:
        yield ""
        yield from _step_lines(plan, planned, lang)
    if plan.left_out:
        yield ""
        yield say("Left out:").render(lang)
        for left in plan.left_out:
            yield f"  {left.step.id}: {left.step.title.render(lang)} ({left.reason.render(lang)})"


def _step_lines(plan: DeployPlan, planned: PlannedStep, lang: str) -> Iterator[str]:
    step = planned.step
    place = say("in the container") if step.in_container else say("on the host")
    yield f"[{step.stage}] {step.id}: {step.title.render(lang)} ({place.render(lang)})"
    parts = [(say("nothing to do when this ends with 0:"), step.check)]
    if planned.copied is not None:
        file = planned.copied
        sent = say(
            "sent where it is missing: {path}, size {size}, sha256 {hash}",
            path=file.path,
            size=file.size,
            hash=file.sha256,
        )
        yield f"  {sent.render(lang)}"
    if step.run:
        parts.append((say("otherwise, for at most {seconds} seconds:", seconds=planned.timeout), step.run))
    if step.undo:
        parts.append((say("`rollback` takes it back with:"), step.undo))
    for title, script in parts:
        yield f"  {title.render(lang)}"
        yield from (f"    {line}" for line in script.strip("\n").splitlines())
    if step.run and not step.undo and not step.in_container:
        note = step.undo_note.render(lang) or say("no way to undo it is known").render(lang)
        yield "  " + say("`rollback` cannot take it back: {note}", note=note).render(lang)
    if step.refuse_busy:
        yield "  " + say("refused while a process uses a card").render(lang)
    if step.reboot:
        yield "  " + say("the host is restarted afterwards").render(lang)
    if step.source:
        yield "  " + say("source: {source}", source=step.source).render(lang)


def table_lines(plan: DeployPlan, hosts: Mapping[str, HostOutcome], lang: str) -> Iterator[str]:
    """Yield the hosts by stages."""
    stages = [stage for stage in STAGES if any(planned.step.stage == stage for planned in plan.planned)]
    if any(SURVEY in host.steps for host in hosts.values()):  # a host that could not be looked at has nothing else
        stages.insert(0, SURVEY)
    width = max(map(display_width, [*hosts, "-"]))
    yield " " * width + "  " + " ".join(stages)
    for name, host in hosts.items():
        signs = [f"{_SIGNS.get(stage_status(plan, host, stage), ' '):<{len(stage)}}" for stage in stages]
        yield name + " " * (width - display_width(name)) + "  " + " ".join(signs).rstrip()
    yield _LEGEND.render(lang)


def stage_status(plan: DeployPlan, host: HostOutcome, stage: str) -> str:
    """Return the worst status of a stage's steps on a host, or of its survey; empty where none of them is known."""
    names = [planned.step.id for planned in plan.planned if planned.step.stage == stage]
    return worst(host.steps[name].status for name in names or [stage] if name in host.steps)


def worst(statuses: Iterable[str]) -> str:
    """Return the worst of some statuses; empty where there is none."""
    return min(statuses, key=_WORST.index, default="")


def failure_lines(plan: DeployPlan, outcome: StepOutcome, lang: str) -> Iterator[str]:
    """Yield what a reader needs of a failure: host, step, what it said, cause, remedy, log."""
    planned = plan.find(outcome.step)
    # a record is read without the plan that it was made with
    step = planned.step if planned else next((each for each in plan.facts.steps if each.id == outcome.step), None)
    title = step.title.render(lang) if step else outcome.step
    if outcome.step == SURVEY:
        title = say("find out what the host has").render(lang)
    yield say("{host}: {step} failed: {title}", host=outcome.host, step=outcome.step, title=title).render(lang)
    for line in outcome.output.strip().splitlines()[-12:]:
        yield f"    {line if len(line) <= _WIDEST else '...' + line[-_WIDEST:]}"
    explanation = plan.facts.explained(outcome.step, outcome.output)
    if explanation is None:
        yield "  " + say("cause: unknown; the output above is all that is known").render(lang)
    else:
        yield "  " + say("cause: {cause}", cause=explanation.causes[0]).render(lang)
        yield "  " + say("do: {remedy}", remedy=explanation.advice).render(lang)
    if step is not None and step.run and outcome.status == "failed":
        log = f"{LOGS}/{plan.target}/{outcome.step}.log"
        where = say("{log} in container {name}", log=log, name=plan.values["container"])
        yield "  " + say("log: {path}", path=where if step.in_container else log).render(lang)


def summary_json(plan: DeployPlan, hosts: Mapping[str, HostOutcome], action: str, lang: str) -> dict[str, Any]:
    """Return a result for programs: `ok`, `failures`, and `hosts` with their steps.

    A host is well when each of its steps is complete; after `run` and `rollback`, when none failed.
    """
    bad = ("failed", "unreachable", "todo") if action == "verify" else ("failed", "unreachable")
    failures = []
    for host in hosts.values():
        for outcome in host.steps.values():
            if outcome.status not in bad or (outcome.step.startswith("copy-") and outcome.status == "todo"):
                continue
            explanation = plan.facts.explained(outcome.step, outcome.output)
            failures.append(
                {
                    "host": host.host,
                    **outcome_row(outcome),
                    "cause": explanation.causes[0].render(lang) if explanation else "",
                    "do": explanation.advice.render(lang) if explanation else "",
                }
            )
    return {
        "schema": 1,
        "kind": f"torchferry deploy {action}",
        "target": plan.target,
        "ok": not failures,
        "failures": failures,
        "left_out": [{"step": left.step.id, "reason": left.reason.render(lang)} for left in plan.left_out],
        "hosts": {
            name: {"ok": not any(failure["host"] == name for failure in failures), "steps": _statuses(host)}
            for name, host in hosts.items()
        },
    }


def _statuses(host: HostOutcome) -> dict[str, str]:
    return {name: outcome.status for name, outcome in host.steps.items()}


def record_lines(record: RunRecord, plan: DeployPlan, lang: str) -> Iterator[str]:
    """Yield a run as a page of Markdown."""
    begun = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.begun))
    yield f"# torchferry deploy {record.action}: {plan.facts.product.render(lang)}"
    yield ""
    yield say("Started {time}, took {seconds} s.", time=begun, seconds=round(record.ended - record.begun)).render(lang)
    yield say_plural(
        "{count} host, {failed} failed.",
        "{count} hosts, {failed} failed.",
        count=len(record.hosts),
        failed=sum(host.failed is not None for host in record.hosts.values()),
    ).render(lang)
    yield ""
    heads = [say("host"), say_in("deployment", "step"), say("result"), say("seconds")]
    yield "| " + " | ".join(head.render(lang) for head in heads) + " |"
    yield "|---|---|---|---|"
    for host in record.hosts.values():
        for outcome in host.steps.values():
            status = status_text(outcome.status).render(lang)
            yield f"| {host.host} | {outcome.step} | {status} | {outcome.seconds:.1f} |"
    for host in record.hosts.values():
        if host.failed is not None:
            yield ""
            yield "```text"
            yield from failure_lines(plan, host.failed, lang)
            yield "```"
