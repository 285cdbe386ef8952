"""`torchferry profile -- COMMAND`: records traces of a run's steps, without an edit of the program."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.cli import ProgramCommand
from torchferry.cli.completion import target_option
from torchferry.cli.writing import creatable
from torchferry.core import exitcodes
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_notice, print_text
from torchferry.profiling.recording import RecordingOptions, record
from torchferry.rehearsal.config import prepare
from torchferry.rehearsal.driver.plugin import UNSAID

_COUNT = click.IntRange(0)


@click.command("record", cls=ProgramCommand)
@target_option()
@click.option("--card", default="", metavar="NAME", help="Card of the target to simulate.")
@click.option(
    "--plugin",
    default=UNSAID,
    metavar="PLUGIN",
    help="With a target: the plugin, as in `torchferry rehearse --plugin`.",
)
@click.option(
    "--skip-first", type=click.IntRange(1), default=1, show_default=True, help="Steps to leave out at the start."
)
@click.option("--wait", type=_COUNT, default=1, show_default=True, help="Steps to leave out in each round.")
@click.option("--warmup", type=_COUNT, default=1, show_default=True, help="Steps to warm the profiler up with.")
@click.option("--active", type=click.IntRange(1), default=2, show_default=True, help="Steps to record in each round.")
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Rounds; each writes a trace.")
@click.option("--modules/--no-modules", default=True, show_default=True, help="Mark the forward of each module.")
@click.option("--shapes/--no-shapes", default=True, show_default=True, help="Record shapes and dtypes of inputs.")
@click.option("--memory", is_flag=True, help="Record what the allocators hold.")
@click.option("--stack", is_flag=True, help="Record Python's stack; much slower.")
@click.option("--flops", is_flag=True, help="Estimate floating-point operations.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    callback=creatable,
    default=Path("profile"),
    show_default=True,
    help="Folder for the traces; it must be empty or not exist.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    target: str,
    card: str,
    plugin: str,
    skip_first: int,
    wait: int,
    warmup: int,
    active: int,
    repeat: int,
    modules: bool,
    shapes: bool,
    memory: bool,
    stack: bool,
    flops: bool,
    out: Path,
    lang: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and record traces of its steps, one folder a rank, for `profile show` and `profile compare`.

    COMMAND is what you type without torchferry: `python train.py`, `torchrun ...`. Nothing in it changes. A step ends
    with `optimizer.step()`. With a target, COMMAND runs on the simulated card: calls and shapes are those of the
    program, and all times are those of this machine's CPU. Ends with the exit code of COMMAND.

    \b
    torchferry profile -- python train.py
    torchferry profile --active 5 --memory --out cuda -- torchrun --nproc_per_node 8 train.py
    torchferry profile show profile
    """
    lang = lang or language()
    options = RecordingOptions(skip_first, wait, warmup, active, repeat, modules, shapes, memory, stack, flops)
    rehearsal = None
    if target:
        rehearsal = prepare(target, card, 0, None, (), plugin)
    recording = record(list(command), options, out, rehearsal)
    for note in recording.notes:
        print_notice(f"torchferry: {note.render(lang)}")
    for trace in recording.traces:
        print_text(str(trace))
    if recording.traces:
        print_notice(say("torchferry: `torchferry profile show {folder}` shows these traces", folder=out).render(lang))
    sys.exit(recording.code or (exitcodes.CLEAN if recording.traces else exitcodes.ERROR))
