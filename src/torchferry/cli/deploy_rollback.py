"""`torchferry deploy rollback`: takes back what runs changed."""

from __future__ import annotations

import sys

import click

from torchferry.cli.deploy_options import DeployChoices, plan_options, status_of_hosts
from torchferry.core.messages import say, say_plural
from torchferry.core.terminal import print_text
from torchferry.deploy.report import failure_lines


@click.command("rollback")
@plan_options(hosts=True)
def command(choices: DeployChoices) -> None:
    """Take back what runs changed since the last commit, last step first: container, image, driver, files.

    A container that was there before comes back as it was. The content of the new container is lost. A step that
    cannot be undone is named. Nothing is changed on a card that a process uses.

    \b
    torchferry deploy rollback -t NAME -i hosts.ini -b bundle
    """
    plan, lang = choices.plan, choices.lang
    hosts = choices.play("undo", "rollback")
    failures = [
        step for host in hosts.values() for step in host.steps.values() if step.status in ("failed", "unreachable")
    ]
    count = sum(
        step.status == "changed" and plan.find(step.step) is not None
        for host in hosts.values()
        for step in host.steps.values()
    )
    for outcome in failures:
        print_text(*failure_lines(plan, outcome, lang))
    print_text(say_plural("{count} step taken back", "{count} steps taken back", count=count).render(lang))
    if failures:
        print_text(say("the steps named above could not be taken back").render(lang))
    sys.exit(status_of_hosts(hosts.values(), bool(failures)))
