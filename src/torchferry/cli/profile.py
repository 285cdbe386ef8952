"""`torchferry profile`: where the time of a run goes, and where it differs from another machine's."""

from __future__ import annotations

import click

from torchferry.cli import LazyGroup

_COMMANDS = {
    "record": "Record traces of a run's steps; `profile -- COMMAND` is the same.",
    "show": "Say where the time of a run went.",
    "compare": "Say where a run on a target takes longer than on CUDA.",
}


class _ProfileGroup(LazyGroup):
    """Subcommands: `show` is in `cli/profile_show.py`."""

    described = _COMMANDS
    prefix = "profile_"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `profile -- COMMAND` and `profile --active 3 -- COMMAND` for `profile record ...`."""
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["record", *args]
        return super().parse_args(ctx, args)


@click.group("profile", cls=_ProfileGroup)
def command() -> None:
    """Say where the time of a run goes, and where it differs from another machine's.

    \b
    torchferry profile -- python train.py               record traces of its steps, without an edit
    torchferry profile show trace.json                  steps, operators, waits, copies, memory
    torchferry profile compare cuda.json target.json    the difference of a step, part by part
    """
