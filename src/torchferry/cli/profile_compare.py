"""`torchferry profile compare`: where a run on a target takes longer than the base."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from torchferry.cli.profile_options import format_option, lang_option, top_option
from torchferry.cli.writing import file_option, write
from torchferry.core import exitcodes
from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say
from torchferry.core.progress import doing
from torchferry.core.terminal import print_notice
from torchferry.profiling import report
from torchferry.profiling.causes import causes
from torchferry.profiling.comparison import compare, open_run
from torchferry.profiling.page import comparison_page

_TRACE = click.Path(exists=True, path_type=Path)


@click.command("compare")
@click.argument("base", type=_TRACE)
@click.argument("target", type=_TRACE)
@click.option("--base-run", multiple=True, type=_TRACE, help="Another run of the base, for an interval; repeatable.")
@click.option(
    "--target-run", multiple=True, type=_TRACE, help="Another run of the target, for an interval; repeatable."
)
@click.option("--force", is_flag=True, help="Compare even what is not comparable; the report says why it is not.")
@top_option
@format_option
@file_option
@lang_option
def command(
    base: Path,
    target: Path,
    base_run: tuple[Path, ...],
    target_run: tuple[Path, ...],
    force: bool,
    top: int,
    output_format: str,
    output_file: Path | None,
    lang: str | None,
) -> None:
    """Say where a step of TARGET takes longer than one of BASE: by part of the step, by operator, by module.

    BASE and TARGET are traces of any two devices, or folders with a trace for each rank. Refuses, with 2, what is not
    comparable: other shapes, dtypes, calls or ranks, or an incomplete trace.

    \b
    torchferry profile compare cuda.pt.trace.json npu_folder
    torchferry profile compare cuda.json target.json -f html -o compare.html
    """
    lang = lang or language()
    first, second = open_run(base), open_run(target)
    more_base, more_target = ([open_run(path) for path in paths] for paths in (base_run, target_run))
    with doing(say("comparing the runs")):
        comparison = compare(first, second, more_base, more_target)
    if comparison.obstacles and not force:
        for obstacle in comparison.obstacles:
            print_notice(say("not comparable: {reason}", reason=obstacle).render(lang))
        print_notice(say("run both with the same work, or compare anyway with --force").render(lang))
        sys.exit(exitcodes.ERROR)
    text: str | Iterable[str]
    if output_format == "json":
        text = json_text(report.comparison_document(comparison, causes(comparison)))
    elif output_format == "csv":
        text = report.comparison_csv(comparison)
    elif output_format == "html":
        text = comparison_page(comparison, lang)
    else:
        text = report.compare_lines(comparison, top, lang, causes(comparison))
    write(text, output_file)
