"""`torchferry ops`: which operators a program needs, and which of them a target has."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "trace": "Run a command and write which operators it calls on the accelerator.",
    "predict": "Write which operators a model needs, without a card and without running it.",
    "report": "Say which operators a target has, lacks or runs on the CPU.",
    "codegen": "Generate the C++ that registers a list of operators.",
    "dump": "Write which operators a plugin registers, for `ops report --table`.",
}


class _OpsGroup(click.Group):
    """Subcommands that are imported when they are used: `codegen` is in `cli/ops_codegen.py`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"torchferry.cli.ops_{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group("ops", cls=_OpsGroup)
def command() -> None:
    """Say which operators a program needs, and which of them a target has.

    \b
    torchferry ops report -t NAME --model model.py:build   what becomes of each operator of a model
    torchferry ops report -t NAME -- python train.py       and of a run
    torchferry ops report -t NAME                          how many kernels the target's plugin has
    """
