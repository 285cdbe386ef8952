"""`torchferry profile show`: where the time of a run went."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from torchferry.cli.profile_options import format_option, lang_option, top_option
from torchferry.cli.writing import file_option, writable, write
from torchferry.core import exitcodes
from torchferry.core.json_text import json_text
from torchferry.core.messages import language
from torchferry.profiling import flame, report
from torchferry.profiling.comparison import open_run
from torchferry.profiling.page import summary_page
from torchferry.profiling.summary import BY


@click.command("show")
@click.argument("trace", type=click.Path(exists=True, path_type=Path))
@click.option("--by", type=click.Choice(BY), default="operator", show_default=True, help="What the time is summed by.")
@top_option
@click.option(
    "--flame",
    "flame_file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Draw a flame graph of modules and operators to FILE.svg.",
)
@format_option
@file_option
@lang_option
def command(
    trace: Path,
    by: str,
    top: int,
    flame_file: Path | None,
    output_format: str,
    output_file: Path | None,
    lang: str | None,
) -> None:
    """Say where the time of a run went: steps, operators, fall backs, waits of the host, copies, memory.

    TRACE is what torch.profiler wrote on any device (*.pt.trace.json, also .gz), what torch_npu.profiler wrote
    (trace_view.json; without it kernel_details.csv), or a folder with a trace for each rank. Ends with 1 where a trace
    is incomplete: cut off, without the work of its device, or without a step; the report says what is missing.

    \b
    torchferry profile show trace.json --by module
    torchferry profile show result_folder -f html -o profile.html
    """
    lang = lang or language()
    run = open_run(trace)
    if flame_file is not None:
        write(flame.draw(run.first, lang), flame_file)
    text: str | Iterable[str]
    if output_format == "json":
        text = json_text(report.summary_document(run))
    elif output_format == "csv":
        text = report.summary_csv(run, by)
    elif output_format == "html":
        text = summary_page(run, lang)
    else:
        text = report.show_lines(run, by, top, lang)
    write(text, output_file)
    if not run.is_whole:
        sys.exit(exitcodes.FINDINGS)
