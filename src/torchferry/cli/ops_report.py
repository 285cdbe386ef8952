"""`torchferry ops report`: which operators a target has, lacks or runs on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from torchferry.cli.completion import target_option
from torchferry.cli.named_target import named_target
from torchferry.cli.ops_options import (
    card_option,
    inference_option,
    listed_operators,
    model_option,
)
from torchferry.cli.writing import file_option, write
from torchferry.core import exitcodes
from torchferry.core.coded_errors import ProgramError
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say
from torchferry.ops.judging import judge
from torchferry.ops.kernels import from_table, from_torch
from torchferry.ops.needs import RunNeeds, read
from torchferry.ops.report import OperatorReport, csv_text, document, lines, page


@click.command("report", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@target_option()
@card_option
@model_option
@inference_option
@click.option(
    "--table",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A list that `ops dump` wrote, in place of torchferry's.",
)
@click.option(
    "-f",
    "--output-format",
    type=click.Choice(["text", "json", "html", "csv"]),
    default="text",
    help="Form of the report.",
)
@file_option
@click.option("-v", "--verbose", is_flag=True, help="Also list the operators that are native or composed of others.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
@click.argument("run", nargs=-1, type=click.UNPROCESSED, metavar="[FILE | -- COMMAND]")
def command(
    target: str,
    card: str,
    model: str,
    inference: bool,
    table: Path | None,
    output_format: str,
    output_file: Path | None,
    verbose: bool,
    lang: str | None,
    run: tuple[str, ...],
) -> None:
    """Say what becomes of each operator on a target: native, composed of others, on the CPU, missing or unknown.

    FILE is what `ops trace` or `ops predict` wrote; COMMAND is run on the simulated card. Ends with 1 when an operator
    is missing. With neither, the report counts how many of the kernels that a device must provide the plugin registers.

    \b
    torchferry ops report -t NAME --model model.py:build
    torchferry ops report -t NAME -- python train.py
    torchferry ops report -t NAME ops.json
    torchferry ops report -t NAME
    """
    lang = lang or language()
    wanted = named_target(target, Path())
    needs: RunNeeds | None = None
    if model and run:
        raise UsageError(
            say("a model and a run cannot be reported at once"), say("give either --model, or a FILE or COMMAND")
        )
    if model:
        from torchferry.ops.prediction import predicted

        operators = listed_operators(wanted, card, table)
        needs = predicted(model, wanted, training=not inference, natives=operators, lang=lang)
    elif len(run) == 1 and run[0].endswith(".json"):
        needs = read(Path(run[0]))
    elif run:
        from torchferry.ops.tracing import traced
        from torchferry.rehearsal.config import prepare

        try:
            needs = traced(list(run), prepare(target or str(wanted), card, 0, None, ()))
        except ProgramError as error:  # a report has no place for the code of the program
            raise TorchferryError(error.message, error.advice) from None
    if not model:
        operators = listed_operators(wanted, card, table, needs.target if needs is not None else "")
    if needs is None:
        report = OperatorReport(operators, kernels=from_torch() or from_table())
    else:
        report = OperatorReport(operators, needs, judge(needs.operators, operators, needs.device))
    text: str | Iterable[str]
    if output_format == "json":
        text = json_text(document(report))
    elif output_format == "csv":
        text = csv_text(report)
    elif output_format == "html":
        text = page(report, lang)
    else:
        text = lines(report, lang, verbose=verbose)
    write(text, output_file)
    if report.has_missing:
        sys.exit(exitcodes.FINDINGS)
    sys.exit(exitcodes.CLEAN if needs is None or needs.is_complete else exitcodes.ERROR)
