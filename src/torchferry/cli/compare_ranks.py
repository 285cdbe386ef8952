"""`torchferry compare ranks`: whether what should be equal on all ranks of a training is."""

from __future__ import annotations

import sys

import click

from torchferry.cli import ProgramCommand
from torchferry.cli.examination import command_argument, lang_option, rank_answer, rank_lines, ranks_differ
from torchferry.core import exitcodes
from torchferry.core.json_text import json_text
from torchferry.core.messages import language
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_data, print_text
from torchferry.numerics.framework.launcher import RANK_TOOL, ToolSettings, require_examined, run
from torchferry.rehearsal.config import note_verdict


@click.command("ranks", cls=ProgramCommand)
@click.option(
    "--every", type=click.IntRange(1), default=1, show_default=True, help="Number of steps between two checks."
)
@click.option(
    "--timeout", type=click.FloatRange(0.1), default=60.0, show_default=True, help="Seconds to wait for a rank."
)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@lang_option
@command_argument
def command(every: int, timeout: float, output_format: str, lang: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND and check before each optimizer step that the ranks agree.

    Parameters and reduced gradients of DistributedDataParallel models are compared bit for bit. Only one hash for each
    tensor is sent. Reports the first tensor that differs, with the ranks and the step, and then ends with 1.

    \b
    torchferry compare ranks -- torchrun --nproc_per_node 8 train.py
    torchferry compare ranks --every 100 -- torchrun --nproc_per_node 8 train.py
    """
    lang = lang or language()
    options = {"every": every, "timeout": timeout}
    with temporary_folder("torchferry-ranks-") as temporary:
        outcome = run(list(command), ToolSettings(RANK_TOOL, options), temporary)
    require_examined(outcome)
    if output_format == "json":
        print_data(json_text(rank_answer(outcome), indent=2))
    else:
        first, *others = rank_lines(outcome, lang)
        print_text(f"torchferry: {first}", *others)
    ranks = rank_answer(outcome)
    if outcome.code != exitcodes.CLEAN:
        sys.exit(outcome.code)
    if ranks_differ(outcome):
        note_verdict("torchferry compare ranks")
        sys.exit(exitcodes.FINDINGS)
    sys.exit(exitcodes.CLEAN if ranks is not None and ranks["equal"] else exitcodes.ERROR)
