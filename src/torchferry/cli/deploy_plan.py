"""`torchferry deploy plan`: every command that a run would send, before it is sent."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.cli.deploy_options import DeployChoices, plan_options
from torchferry.cli.writing import creatable
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.deploy.playbook import write_project
from torchferry.deploy.report import plan_lines


@click.command("plan")
@plan_options(hosts=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=creatable,
    help="Write the playbook into this new folder instead.",
)
def command(choices: DeployChoices, output: Path | None) -> None:
    """Print every command that `run` would send to a host, with what it asks first, and its source.

    With -o the playbook is written, with one script a step, to be read or to be run with `ansible-playbook`.

    \b
    torchferry deploy plan -t NAME -b bundle
    torchferry deploy plan -t NAME -b bundle -o playbook
    """
    if output is None:
        click.echo("\n".join(plan_lines(choices.plan, choices.lang)))
        return
    try:
        output.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(say("{path} exists; name a new folder", path=output)) from None
    play = write_project(choices.plan, output, "run")
    click.echo(str(play))
