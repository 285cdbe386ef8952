"""`torchferry run`: run an unchanged CUDA program on another accelerator."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from torchferry.backends import cuda
from torchferry.backends.diagnostics import LEVELS
from torchferry.backends.registry import built_in
from torchferry.cli import ProgramCommand
from torchferry.cli.completion import complete_target, target_or
from torchferry.cli.help_text import help_text
from torchferry.cli.writing import writable
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.shim.launcher import run


@click.command("run", cls=ProgramCommand)
@click.option(
    "-t",
    "--target",
    default="auto",
    metavar="NAME[@VERSION]",
    shell_complete=complete_target,
    callback=target_or("auto", cuda.DEVICE_TYPE),
    help=help_text(
        "The accelerator: {targets}; default: the one whose plugin is installed.",
        targets=", ".join(built_in()),
    ),
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Write which lines of the files below the current folder were redirected, as JSON for `migrate --seen`.",
)
@click.option(
    "--vendor-log",
    type=click.Choice(LEVELS),
    default=None,
    help="Set the variables that make torch and the vendor's software log more; variables that you have set stay.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(target: str, report: Path | None, vendor_log: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND, an unchanged CUDA program, on another accelerator.

    COMMAND is what you type on a machine with CUDA: `python train.py`, `torchrun ...`, `accelerate launch ...`, or a
    shell script that calls Python. `torch.cuda` is redirected to the card in every Python process; the program sees a
    CUDA device. What the card lacks raises an error that names a replacement.

    \b
    torchferry run -- python train.py --device cuda
    torchferry run -t NAME -- torchrun --nproc_per_node 2 train.py
    """
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise UsageError(
            say("TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading the redirect"),
            say("unset it, or run the program with `python -m torchferry.run`"),
        )
    sys.exit(run(list(command), target, report, vendor_log or ""))
