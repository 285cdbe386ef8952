"""`torchferry ops trace`: which operators a command calls on the accelerator."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.cli import ProgramCommand
from torchferry.cli.completion import target_option
from torchferry.cli.ops_options import card_option
from torchferry.cli.writing import file_option, write
from torchferry.core.messages import say
from torchferry.core.terminal import print_notice
from torchferry.ops.tracing import traced
from torchferry.rehearsal.config import prepare
from torchferry.rehearsal.driver.plugin import UNSAID


@click.command("trace", cls=ProgramCommand)
@target_option()
@card_option
@click.option("--plugin", default=UNSAID, metavar="PLUGIN", help="Path of the vendor's wheel, as for `rehearse`.")
@file_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(target: str, card: str, plugin: str, output_file: Path | None, command: tuple[str, ...]) -> None:
    """Run COMMAND and write which operators it calls on the accelerator, as JSON, for `ops report`.

    With a target, COMMAND runs on the simulated card, and a missing operator does not stop it. Without one, it runs on
    this machine's accelerator. Ends with the exit code of COMMAND.

    \b
    torchferry ops trace -t NAME -o ops.json -- python train.py
    """
    rehearsal = prepare(target, card, 0, None, (), plugin) if target else None
    needs = traced(list(command), rehearsal)
    write(needs.to_json(), output_file)
    if not needs.is_complete:
        incomplete = say("the run did not complete, so the file may lack operators; the file notes this")
        print_notice(f"torchferry: {incomplete.render()}")
    sys.exit(needs.exit_code)
