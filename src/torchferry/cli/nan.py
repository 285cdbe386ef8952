"""`torchferry nan`: run a command and say where the first NaN or infinity came from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from torchferry.cli import ProgramCommand
from torchferry.cli.examination import examination_options, tell_agreement
from torchferry.cli.writing import write
from torchferry.core import exitcodes
from torchferry.core.json_text import json_text
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_notice
from torchferry.numerics.framework.launcher import ToolSettings, require_examined, run
from torchferry.numerics.report.nan import document, failed, lines, nothing_ran, table
from torchferry.rehearsal.config import note_verdict

_TOOL = "torchferry.numerics.process_tools:begin_nan"


@click.command("nan", cls=ProgramCommand)
@click.option(
    "--level",
    type=click.Choice(["watch", "operator"]),
    default="watch",
    show_default=True,
    help="`watch` reads one number in each step and runs a bad step again; `operator` checks every result.",
)
@click.option("--stop", is_flag=True, help="End the program at the first step that is not finite.")
@examination_options
def command(
    level: str,
    start_step: int,
    end_step: int | None,
    target_op: tuple[str, ...],
    skip_op: tuple[str, ...],
    ranks: tuple[int, ...],
    check_ranks: int,
    stop: bool,
    dump: Path | None,
    output_format: str,
    output_file: Path | None,
    lang: str,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and find its first NaN or infinity.

    COMMAND is what you type without torchferry: `python train.py`, `torchrun ...`, a shell script. Nothing in it
    changes. The report names the operator, the module, the step, forward or backward, the line, and the operator's
    inputs. Infinities that a gradient scaler expects are counted separately. Infinities that become finite again do
    not count.

    \b
    torchferry nan -- python train.py
    torchferry rehearse -t NAME -- torchferry nan -- python train.py
    """
    options = {
        "level": level,
        "start_step": start_step,
        "end_step": end_step,
        "target_op": list(target_op) or None,
        "white_list": list(skip_op),
        "stop": stop,
        "dump_error_data": dump is not None,
        "enable_ranks": list(ranks) or None,
        "output_dir": str(dump.absolute()) if dump is not None else "",
    }
    with temporary_folder("torchferry-nan-") as temporary:
        outcome = run(list(command), ToolSettings(_TOOL, options, ranks, check_ranks), temporary)
    require_examined(outcome)
    ranks_differ = tell_agreement(outcome, lang)
    result = document(outcome, command, level)
    first, *others = lines(result, lang)
    text = [f"torchferry: {first}", *others]
    write(_written(result, text, output_format, lang), output_file)
    if output_file is not None:
        print_notice(*text)
    code = outcome.code
    if code == 0 and nothing_ran(result):
        code = exitcodes.ERROR
    elif code == 0 and (ranks_differ or result["first"] is not None or failed(result)):
        code = exitcodes.FINDINGS
        note_verdict("torchferry nan")
    sys.exit(code)


def _written(result: dict[str, Any], text: list[str], output_format: str, lang: str) -> str | list[str]:
    if output_format == "json":
        return json_text(result)
    if output_format == "csv":
        return table(result)
    if output_format == "html":
        from torchferry.numerics.report.pages import nan_page

        return nan_page(result, lang)
    return text
