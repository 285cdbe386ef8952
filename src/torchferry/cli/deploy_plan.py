"""`torchferry deploy plan`: every command that a run would send, before it is sent, and to which hosts."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.cli.deploy_options import LIMIT, TREE, VAULT, DeployChoices, plan_options
from torchferry.cli.writing import creatable
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.terminal import print_text
from torchferry.deploy.inventory import PlayOptions, inventory_hosts
from torchferry.deploy.playbook import write_project
from torchferry.deploy.playing import places_of
from torchferry.deploy.report import host_lines, plan_lines


@click.command("plan")
@plan_options(hosts=False)
@click.option(
    "-i",
    "--inventory",
    type=click.Path(exists=True, path_type=Path),
    help="Also say to which hosts of this inventory it goes; none of them is asked.",
)
@LIMIT
@VAULT
@TREE[0]
@TREE[1]
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=creatable,
    help="Write the playbook into this new folder instead.",
)
def command(
    choices: DeployChoices,
    inventory: Path | None,
    limit: str,
    vault_password_file: Path | None,
    tree_above: int,
    tree_width: int,
    output: Path | None,
) -> None:
    """Print every command that `run` would send to a host, with the check before it and its source.

    With -i it also prints the hosts, and which of them pass files on. With -o it writes the playbook, with one script
    per step, to read or to run with `ansible-playbook`.

    \b
    torchferry deploy plan -t NAME -b bundle
    torchferry deploy plan -t NAME -b bundle -i hosts.ini --limit node7
    torchferry deploy plan -t NAME -b bundle -o playbook
    """
    if inventory is None and (limit or vault_password_file is not None):
        raise UsageError(say("--limit and --vault-password-file work only with -i"), say("add -i FILE"))
    hosts: list[str] = []
    places = None
    if inventory is not None:
        options = PlayOptions(
            inventory,
            limit,
            vault_password_file=vault_password_file,
            tree_above=tree_above,
            tree_width=tree_width,
        )
        hosts = list(inventory_hosts(options))
        places = places_of(hosts, options)
    if output is None:
        if hosts:
            print_text(*host_lines(hosts, places, choices.lang), "")
        print_text(*plan_lines(choices.plan, choices.lang))
        return
    try:
        output.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(say("{path} exists; name a new folder", path=output)) from None
    play = write_project(choices.plan, output, "run", places)
    print_text(str(play))
