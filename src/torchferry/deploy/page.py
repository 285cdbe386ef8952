"""A run as one page of HTML that loads nothing: hosts by stages with their times, and why a host failed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from html import escape

from torchferry.backends.deployment import STAGES
from torchferry.core.messages import say, say_in, say_plural
from torchferry.core.web_page import web_page
from torchferry.deploy.plan import DeployPlan
from torchferry.deploy.playbook import SURVEY
from torchferry.deploy.playing import HostOutcome, StepOutcome
from torchferry.deploy.records import RunRecord
from torchferry.deploy.report import failure_lines, status_text, worst

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem; color: #1c2430 }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } th, td { border: 1px solid #cfd6df; padding: .25rem .6rem; text-align: left }
td.number { text-align: right } .wide { overflow-x: auto } .stages td { white-space: nowrap }
pre { background: #f3f5f8; padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere }
.ok { background: #eef1f4 } .changed { background: #d7f0dd } .todo { background: #fff4cc }
.failed, .unreachable { background: #fbd9d9; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  body { color: #e4e8ee; background: #14181f } pre { background: #1e242e }
  th, td { border-color: #3a4452 } .ok { background: #232b36 } .changed { background: #1d4029 }
  .todo { background: #4a4015 }
  .failed, .unreachable { background: #5a2323 }
}
"""


def page(record: RunRecord, plan: DeployPlan, lang: str) -> str:
    """Return a run as a page.

    Args:
        record: The run.
        plan: The plan of the target, for titles, stages and what messages mean; its settings are not read.
        lang: The language.
    """
    title = f"torchferry deploy {record.action}: {plan.facts.product.render(lang)}"
    return web_page(title, _STYLE, [f"{part}\n" for part in _body(record, plan, lang)], lang)


def _body(record: RunRecord, plan: DeployPlan, lang: str) -> Iterator[str]:
    begun = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.begun))
    lines = (
        say("Started {time}, took {seconds} s.", time=begun, seconds=round(record.ended - record.begun)),
        say_plural(
            "{count} host, {failed} failed.",
            "{count} hosts, {failed} failed.",
            count=len(record.hosts),
            failed=sum(host.failed is not None for host in record.hosts.values()),
        ),
    )
    yield "".join(f"<p>{escape(line.render(lang))}</p>" for line in lines)
    failures = [host.failed for host in record.hosts.values() if host.failed is not None]
    for outcome in failures:
        yield f"<pre>{escape(chr(10).join(failure_lines(plan, outcome, lang)))}</pre>"
    yield from _stages(record, plan, lang)
    for host in record.hosts.values():
        yield from _host(host, plan, lang)


def _stages(record: RunRecord, plan: DeployPlan, lang: str) -> Iterator[str]:
    """Yield the table of hosts by stages: the worst of its steps, and the seconds of all of them."""
    by_host = {name: _by_stage(host, plan) for name, host in record.hosts.items()}
    stages = [stage for stage in ("", *STAGES) if any(stage in steps for steps in by_host.values())]
    heads = "".join(f"<th>{escape(stage or SURVEY)}</th>" for stage in stages)
    yield f'<div class="wide"><table class="stages"><tr><th>{escape(say("host").render(lang))}</th>{heads}</tr>'
    for name, steps in by_host.items():
        cells = []
        for stage in stages:
            status = worst(step.status for step in steps.get(stage, ()))
            seconds = sum(step.seconds for step in steps.get(stage, ()))
            text = escape(status_text(status).render(lang)) if status else ""
            took = f"<br>{seconds:.0f} s" if seconds else ""  # what is looked at together with others has no time
            cells.append(f'<td class="{status}">{text}{took}</td>')
        yield f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>"
    yield "</table></div>"


def _by_stage(host: HostOutcome, plan: DeployPlan) -> dict[str, list[StepOutcome]]:
    stages: dict[str, list[StepOutcome]] = {}
    for outcome in host.steps.values():
        stages.setdefault(_stage(outcome.step, plan), []).append(outcome)
    return stages


def _stage(name: str, plan: DeployPlan) -> str:
    """Return the stage of a step; of a copy, that of the first step that takes the file; empty where it has none."""
    file = name.removeprefix("copy-").replace("-", "_")
    for step in plan.facts.steps:
        if step.id == name or (name.startswith("copy-") and file in (*step.needs, *step.uses)):
            return step.stage
    return ""


def _host(host: HostOutcome, plan: DeployPlan, lang: str) -> Iterator[str]:
    titles = {step.id: step.title.render(lang) for step in plan.facts.steps}
    yield f"<h2>{escape(host.host)}</h2>"
    heads = (say_in("deployment", "step"), say("result"), say("seconds"))
    yield '<div class="wide"><table><tr>' + "".join(f"<th>{escape(head.render(lang))}</th>" for head in heads) + "</tr>"
    for outcome in host.steps.values():
        title = f"{outcome.step}: {titles[outcome.step]}" if outcome.step in titles else outcome.step
        status = escape(status_text(outcome.status).render(lang))
        row = f'<td>{escape(title)}</td><td class="{outcome.status}">{status}</td>'
        yield f'<tr>{row}<td class="number">{outcome.seconds:.1f}</td></tr>'
    yield "</table></div>"
