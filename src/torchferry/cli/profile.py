"""`torchferry profile`: where the time of a run goes, and where it differs from another machine's."""

from __future__ import annotations

import click

from torchferry.cli import LazyGroup

_COMMANDS = {
    "show": "Say where the time of a run went.",
    "compare": "Say where a run on a target takes longer than on CUDA.",
}


class _ProfileGroup(LazyGroup):
    """Subcommands: `show` is in `cli/profile_show.py`."""

    described = _COMMANDS
    prefix = "profile_"


@click.group("profile", cls=_ProfileGroup)
def command() -> None:
    """Say where the time of a run goes, and where it differs from another machine's.

    \b
    torchferry profile show trace.json                  steps, operators, waits, copies, memory
    torchferry profile compare cuda.json target.json    the difference of a step, part by part
    """
