"""`torchferry triton`: the Triton kernels of a project, without the card."""

from __future__ import annotations

import click

from torchferry.cli import LazyGroup

_COMMANDS = {
    "check": "Compile a project's Triton kernels with the vendor's own front end, without the card.",
}


class _TritonGroup(LazyGroup):
    """Subcommands: `check` is in `cli/triton_check.py`."""

    described = _COMMANDS
    prefix = "triton_"


@click.group("triton", cls=_TritonGroup)
def command() -> None:
    """Say which Triton kernels of a project a target takes.

    \b
    torchferry triton check -t NAME kernels.py
    torchferry triton check -t NAME --launches run.json
    """
