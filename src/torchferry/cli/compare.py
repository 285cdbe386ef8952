"""`torchferry compare`: on this machine operator by operator, or between two machines."""

from __future__ import annotations

import click

from torchferry.cli import LazyGroup

_COMMANDS = {
    "cpu": "Run COMMAND and compare each operator with the CPU. Short form: `compare -- COMMAND`.",
    "record": "Run COMMAND and record its numbers, for `diff`.",
    "diff": "Compare two records, and report where and why they differ.",
    "ranks": "Run COMMAND on several processes and check that they agree.",
    "curves": "Compare the loss and metrics of two training logs.",
}


class _CompareGroup(LazyGroup):
    """Subcommands; `cpu` is meant where none is named."""

    described = _COMMANDS
    prefix = "compare_"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*_COMMANDS, "-h", "--help"}:
            args = ["cpu", *args]
        return super().parse_args(ctx, args)


@click.group("compare", cls=_CompareGroup)
def command() -> None:
    """Find where numbers differ from the CPU's, or from another machine's.

    \b
    torchferry compare -- python train.py                 compare each operator with the CPU, on this machine
    torchferry compare record -o here -- python train.py  record a run; record the other one on its machine
    torchferry compare diff there here                    report where and why the two records differ
    torchferry compare curves there.log here.log          compare the losses of two logs
    torchferry compare ranks -- torchrun ... train.py     check that parameters and gradients are equal on all ranks
    """
