"""`torchferry compare -- COMMAND`: each operator of a command against the CPU, on this machine."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click

from torchferry.cli import agreement
from torchferry.cli.writing import write
from torchferry.core import env, exitcodes
from torchferry.numerics.framework.launcher import ToolSettings, require_examined, run
from torchferry.numerics.report import compare as summary
from torchferry.numerics.report.standards import NAMES, SOURCES
from torchferry.rehearsal.config import note_verdict

TOOL = "torchferry.numerics.compare.entrypoint"


@click.command("cpu", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--standard", type=click.Choice(NAMES), default="ours", show_default=True, help="What results are judged by."
)
@click.option(
    "--atol", type=float, default=None, help="Absolute tolerance, in place of one for each operator and dtype."
)
@click.option("--rtol", type=float, default=None, help="Relative tolerance, likewise.")
@click.option("--target-op", multiple=True, metavar="NAME", help="Compare only this operator; can be repeated.")
@click.option("--white-list", multiple=True, metavar="NAME", help="Do not compare this operator; can be repeated.")
@click.option("--start-step", type=click.IntRange(0), default=None, help="The first step that is compared, from 0.")
@click.option("--end-step", type=click.IntRange(0), default=None, help="The first step that is compared no more.")
@click.option("--every", is_flag=True, help="Compare every call, and not the first of its kind and then a sample.")
@click.option(
    "--budget",
    type=click.FloatRange(0, 100),
    default=2.0,
    show_default=True,
    help="Percent of the time for the sample.",
)
@click.option("--propagate", is_flag=True, help="Also keep a golden run beside the program, and say how far it drifts.")
@click.option(
    "--enable-ranks", multiple=True, type=int, metavar="RANK", help="Compare on this rank only; can be repeated."
)
@agreement.option
@click.option(
    "--output-dir", type=click.Path(file_okay=False, path_type=Path), help="Write a log for each rank into this folder."
)
@click.option(
    "--dump-error-data", is_flag=True, help="Write the first call that fails into --output-dir, and stop there."
)
@click.option("--memory-limit", type=click.IntRange(1), default=1024, show_default=True, help="MB for copies.")
@click.option("-v", "--verbose", is_flag=True, help="Also log calls that pass.")
@click.option(
    "-f",
    "--output-format",
    type=click.Choice(["text", "json", "csv", "html"]),
    default="text",
    help="Form of the summary.",
)
@click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    standard: str,
    atol: float | None,
    rtol: float | None,
    target_op: tuple[str, ...],
    white_list: tuple[str, ...],
    start_step: int | None,
    end_step: int | None,
    every: bool,
    budget: float,
    propagate: bool,
    enable_ranks: tuple[int, ...],
    check_ranks: int,
    output_dir: Path | None,
    dump_error_data: bool,
    memory_limit: int,
    verbose: bool,
    output_format: str,
    output_file: Path | None,
    lang: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and compare each operator with the CPU in higher precision.

    The first call of each operator, shape and dtype is compared, then a sample within the budget. A float16 result is
    judged by what float16 can do: by the rounding bound of the operator, then by the error of the CPU in float16. What
    was not compared is untested with the reason, and never passes. Ends with 1 when an operator fails, and with 2 when
    nothing was compared.

    \b
    torchferry compare -- python train.py
    torchferry compare --every --end-step 2 -- torchrun --nproc_per_node 2 train.py
    torchferry compare --output-dir out --dump-error-data -- python train.py
    """
    lang = lang or env.language()
    options = {
        "atol": atol,
        "rtol": rtol,
        "verbose": verbose,
        "target_op": list(target_op) or None,
        "white_list": list(white_list),
        "start_step": start_step,
        "end_step": end_step,
        "should_log_to_file": output_dir is not None,
        "output_dir": str((output_dir or Path()).absolute()),
        "dump_error_data": dump_error_data,
        "standard": standard,
        "every": every,
        "budget": budget / 100,
        "propagate": propagate,
        "memory_limit": memory_limit << 20,
        "quiet": output_dir is None and not verbose,
        "lang": lang,
    }
    with tempfile.TemporaryDirectory(prefix="torchferry-compare-", ignore_cleanup_errors=True) as name:
        outcome = run(list(command), ToolSettings(TOOL, options, enable_ranks, check_ranks), Path(name))
    require_examined(outcome)
    ranks_differ = agreement.tell(outcome, lang)
    found = summary.document(outcome, standard, SOURCES.get(standard, ""), list(command))
    if output_format == "json":
        text = json.dumps(found, ensure_ascii=False, indent=2)
    elif output_format == "csv":
        text = summary.table(found)
    elif output_format == "html":
        from torchferry.numerics.report.pages import compare_page

        text = compare_page(found, lang)
    else:
        text = "\n".join(summary.lines(found, lang))
    write(text, output_file)
    if summary.failed(found) or ranks_differ:
        if outcome.code == exitcodes.CLEAN:
            note_verdict("torchferry compare")
        sys.exit(exitcodes.FINDINGS)
    if outcome.code == exitcodes.CLEAN and not summary.compared(found):
        sys.exit(exitcodes.ERROR)
    sys.exit(outcome.code)
