"""`torchferry environment`: list or remove the environments that `rehearse --with` keeps."""

from __future__ import annotations

from datetime import datetime, timezone

import click

from torchferry.core.messages import say
from torchferry.core.terminal import print_notice, print_text
from torchferry.rehearsal.environments import store


@click.group("environment")
def command() -> None:
    """List or remove the environments that `rehearse --with` keeps."""


@command.command("list")
def list_environments() -> None:
    """List the environments: name, size, the day of the last use, and what was asked for."""
    environments = store.kept_environments()
    if not environments:
        print_notice(f"torchferry: {say('no environment is kept in {folder}', folder=store.environments_folder())}")
    width = max((len(each.name) for each in environments), default=0)
    for each in environments:
        day = datetime.fromtimestamp(each.used, tz=timezone.utc).date()
        print_text(f"{each.name:<{width}}  {each.size() / 1e9:.1f} GB  {day}  {', '.join(each.holds)}")


@command.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(names: tuple[str, ...]) -> None:
    """Remove environments by name."""
    for name in names:
        store.remove(name)
        print_notice(f"torchferry: {say('removed {name}', name=name)}")
