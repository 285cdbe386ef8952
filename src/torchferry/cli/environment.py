"""`torchferry environment`: list or remove the environments that `rehearse --with` keeps."""

from __future__ import annotations

from datetime import datetime, timezone

import click

from torchferry.core.folders import files_below
from torchferry.core.messages import say
from torchferry.core.terminal import print_notice, print_text
from torchferry.rehearsal.environments import store
from torchferry.triton.environment import kept_front_ends, remove_front_end


@click.group("environment")
def command() -> None:
    """List or remove the environments that `rehearse --with` keeps, and the front ends of `triton check`."""


@command.command("list")
def list_environments() -> None:
    """List the environments: name, size, the day of the last use, and what was asked for."""
    environments, front_ends = store.kept_environments(), kept_front_ends()
    if not environments and not front_ends:
        print_notice(f"torchferry: {say('no environment is kept in {folder}', folder=store.environments_folder())}")
    names = [*(each.name for each in environments), *(each.name for each in front_ends)]
    width = max(map(len, names), default=0)
    for each in environments:
        day = datetime.fromtimestamp(each.used, tz=timezone.utc).date()
        print_text(f"{each.name:<{width}}  {each.size() / 1e9:.1f} GB  {day}  {', '.join(each.holds)}")
    for front_end in front_ends:
        day = datetime.fromtimestamp(front_end.used, tz=timezone.utc).date()
        size = sum(path.lstat().st_size for path in files_below(front_end.folder) if not path.is_dir())
        print_text(f"{front_end.name:<{width}}  {size / 1e9:.1f} GB  {day}  {front_end.title}")


@command.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(names: tuple[str, ...]) -> None:
    """Remove environments by name."""
    for name in names:
        if not remove_front_end(name):
            store.remove(name)
        print_notice(f"torchferry: {say('removed {name}', name=name)}")
