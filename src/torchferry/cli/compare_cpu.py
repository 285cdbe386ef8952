"""`torchferry compare -- COMMAND`: each operator of a command against the CPU, on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from torchferry.cli import ProgramCommand
from torchferry.cli.examination import allow_cpu_option, examination_options, tell_agreement
from torchferry.cli.writing import creatable, write
from torchferry.core import exitcodes
from torchferry.core.json_text import json_text
from torchferry.core.temporary import temporary_folder
from torchferry.numerics.framework.launcher import ToolSettings, require_examined, run
from torchferry.numerics.report import compare as summary
from torchferry.numerics.report.compare import NAMES, SOURCES
from torchferry.rehearsal.config import note_verdict

_TOOL = "torchferry.numerics.process_tools:begin_compare"


@click.command("cpu", cls=ProgramCommand)
@click.option(
    "--standard", type=click.Choice(NAMES), default="ours", show_default=True, help="The standard to judge by."
)
@click.option(
    "--atol",
    type=float,
    default=None,
    help="Absolute tolerance for all operators; default: one for each operator and dtype.",
)
@click.option("--rtol", type=float, default=None, help="Relative tolerance for all operators.")
@click.option("--every", is_flag=True, help="Compare every call, instead of the first of each kind and then a sample.")
@click.option(
    "--budget",
    type=click.FloatRange(0, 100),
    default=2.0,
    show_default=True,
    help="Percent of the run time that comparing the sample may take.",
)
@click.option(
    "--propagate",
    is_flag=True,
    help="Also compute a reference run in higher precision, and report how far the program drifts from it.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    callback=creatable,
    help="Write a log for each rank into this folder.",
)
@click.option("--dump-error-data", is_flag=True, hidden=True)
@click.option(
    "--memory-limit",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="Memory of the host for copies of tensors, in MB.",
)
@allow_cpu_option
@click.option("-v", "--verbose", is_flag=True, help="Also log calls that pass.")
@examination_options
def command(
    standard: str,
    atol: float | None,
    rtol: float | None,
    target_op: tuple[str, ...],
    skip_op: tuple[str, ...],
    start_step: int,
    end_step: int | None,
    every: bool,
    budget: float,
    propagate: bool,
    ranks: tuple[int, ...],
    check_ranks: int,
    output_dir: Path | None,
    dump: Path | None,
    dump_error_data: bool,
    memory_limit: int,
    allow_cpu: bool,
    verbose: bool,
    output_format: str,
    output_file: Path | None,
    lang: str,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and compare each operator with the CPU in higher precision.

    The first call of each operator, shape and dtype is compared, then a sample within the budget. A float16 result is
    judged by what float16 can do: by the rounding bound of the operator, then by the error of the CPU in float16.
    A call that was not compared is untested, with the reason, and never passes. Ends with 1 when an operator fails,
    with 2 when nothing was compared, and with 3 when it ran on the CPU alone, unless COMMAND itself fails.

    \b
    torchferry compare -- python train.py
    torchferry compare --every --end-step 2 -- torchrun --nproc_per_node 2 train.py
    torchferry compare --dump wrong -- python train.py
    """
    options = {
        "atol": atol,
        "rtol": rtol,
        "verbose": verbose,
        "target_op": list(target_op) or None,
        "white_list": list(skip_op),
        "start_step": start_step,
        "end_step": end_step,
        "should_log_to_file": output_dir is not None,
        "output_dir": str((output_dir or Path()).absolute()),
        "dump_error_data": dump_error_data,
        "dump": None if dump is None else str(dump.absolute()),
        "standard": standard,
        "every": every,
        "budget": budget / 100,
        "propagate": propagate,
        "memory_limit": memory_limit << 20,
        "quiet": output_dir is None and not verbose,
        "lang": lang,
    }
    with temporary_folder("torchferry-compare-") as temporary:
        outcome = run(list(command), ToolSettings(_TOOL, options, ranks, check_ranks), temporary)
    require_examined(outcome)
    ranks_differ = tell_agreement(outcome, lang)
    document = summary.document(outcome, standard, SOURCES.get(standard, ""), list(command), allow_cpu)
    text: str | Iterable[str]
    if output_format == "json":
        text = json_text(document, indent=2)
    elif output_format == "csv":
        text = summary.table(document)
    elif output_format == "html":
        from torchferry.numerics.report.pages import compare_page

        text = compare_page(document, lang)
    else:
        text = summary.lines(document, lang)
    write(text, output_file)
    if outcome.code != exitcodes.CLEAN:
        sys.exit(outcome.code)
    if summary.failed(document) or ranks_differ:
        note_verdict("torchferry compare")
        sys.exit(exitcodes.FINDINGS)
    if summary.is_without_accelerator(document):
        sys.exit(exitcodes.NO_ACCELERATOR)
    sys.exit(exitcodes.CLEAN if summary.compared(document) else exitcodes.ERROR)
