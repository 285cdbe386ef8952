"""`torchferry deploy check`: what is there on the hosts, and what is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from torchferry.cli.deploy_options import DeployChoices, plan_options, print_json, status_of_hosts
from torchferry.core.messages import say
from torchferry.core.terminal import print_text
from torchferry.deploy.playing import HostOutcome, StepOutcome
from torchferry.deploy.report import failure_lines, summary_json, table_lines
from torchferry.deploy.script import BUSY


@click.command("check")
@plan_options(hosts=True)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the report.")
def command(choices: DeployChoices, output_format: str) -> None:
    """Look at every step on every host, and say what is there, what is missing and what is in the way.

    Nothing is changed, copied or installed. Ends with 1 when something is in the way, such as a full disk or Docker
    that does not run, and with 2 when a host could not be asked. A step that is still to be done is no failure.

    \b
    torchferry deploy check -t NAME -i hosts.ini -b bundle
    """
    hosts = choices.play("survey", "check")
    in_the_way = obstacles(choices, hosts.values())
    if output_format == "json":
        document = summary_json(choices.plan, hosts, "check", choices.lang)
        print_json(
            {**document, "ok": not in_the_way, "obstacles": [f"{item.host}: {item.step}" for item in in_the_way]}
        )
    else:
        print_text(*table_lines(choices.plan, hosts, choices.lang))
        for outcome in in_the_way:
            print_text(*failure_lines(choices.plan, outcome, choices.lang))
        for left in (row for row in choices.plan.left_out if row.chosen):
            print_text(say("left out: {step}: {reason}", step=left.step.id, reason=left.reason).render(choices.lang))
    sys.exit(status_of_hosts(hosts.values(), bool(in_the_way)))


def obstacles(choices: DeployChoices, hosts: Iterable[HostOutcome]) -> list[StepOutcome]:
    """Return what is in the way: hosts that do not answer, what is asked before all and is not met, cards in use."""
    bad: list[StepOutcome] = []
    for host in hosts:
        for outcome in host.steps.values():
            planned = choices.plan.find(outcome.step)
            judges = planned is not None and planned.step.stage == "precheck"
            in_use = BUSY in outcome.output
            if outcome.status in ("failed", "unreachable") or (outcome.status == "todo" and (judges or in_use)):
                bad.append(outcome)
    return bad
