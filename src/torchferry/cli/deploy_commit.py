"""`torchferry deploy commit`: keeps what runs changed."""

from __future__ import annotations

import sys

import click

from torchferry.cli.deploy_options import DeployChoices, plan_options, status_of_hosts
from torchferry.core.messages import say
from torchferry.core.terminal import print_text
from torchferry.deploy.report import failure_lines


@click.command("commit")
@plan_options(hosts=True)
def command(choices: DeployChoices) -> None:
    """Keep what runs changed: the former container is removed, and a later rollback stops here.

    \b
    torchferry deploy commit -t NAME -i hosts.ini -b bundle
    """
    hosts = choices.play("commit", "commit")
    failures = [host.failed for host in hosts.values() if host.failed is not None]
    for outcome in failures:
        print_text(*failure_lines(choices.plan, outcome, choices.lang))
    for host in hosts.values():
        if host.failed is None:
            print_text(say("{host}: the changes are kept", host=host.host).render(choices.lang))
    sys.exit(status_of_hosts(hosts.values(), bool(failures)))
