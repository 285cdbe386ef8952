"""`torchferry ops`: which operators a program needs, and which of them a target has."""

from __future__ import annotations

import click

from torchferry.cli import LazyGroup

_COMMANDS = {
    "trace": "Run a command and write which operators it calls on the accelerator.",
    "predict": "Write which operators a model needs, without a card and without running it.",
    "report": "Say which operators a target has, lacks or runs on the CPU.",
    "new": "Start a new operator: its registration, a skeleton that compiles, its test.",
    "codegen": "Generate the C++ that registers a list of operators.",
    "request": "Write a request for missing operators in the form that the vendor asks for.",
    "dump": "Write which operators a plugin registers, for `ops report --table`.",
}


class _OpsGroup(LazyGroup):
    """Subcommands: `codegen` is in `cli/ops_codegen.py`."""

    described = _COMMANDS
    prefix = "ops_"


@click.group("ops", cls=_OpsGroup)
def command() -> None:
    """Say which operators a program needs, and which of them a target has.

    \b
    torchferry ops report -t NAME --model model.py:build   what becomes of each operator of a model
    torchferry ops report -t NAME -- python train.py       and of a run
    torchferry ops report -t NAME                          how many kernels the target's plugin has
    """
