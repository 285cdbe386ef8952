"""`torchferry ops request`: the vendor's form, filled."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.backends.requests import request_facts
from torchferry.cli.completion import target_option
from torchferry.cli.named_target import named_target
from torchferry.cli.ops_options import card_option, inference_option, listed_operators, model_option
from torchferry.cli.writing import file_option, write
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.terminal import print_notice
from torchferry.ops.request import made_for, of_run, requested
from torchferry.ops.request_forms import RequestText, request_text


@click.command("request")
@target_option()
@card_option
@model_option
@inference_option
@click.option(
    "--operator",
    "operators",
    multiple=True,
    metavar="NAME",
    help="Request this operator, even if no list says that it is missing. Can be repeated.",
)
@click.option(
    "--table",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A list that `ops dump` wrote, in place of torchferry's.",
)
@click.option(
    "--trace",
    type=click.Path(exists=True, path_type=Path),
    help="Trace of a run of the program, or the folder that `torchferry profile` wrote: adds each operator's calls in "
    "a step and share of the step's time.",
)
@click.option("--force", is_flag=True, help="Use the trace even if it names another program.")
@file_option
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language. Default: the vendor's.")
@click.argument("run", required=False, type=click.Path(exists=True, path_type=Path))
def command(
    target: str,
    card: str,
    model: str,
    inference: bool,
    operators: tuple[str, ...],
    table: Path | None,
    trace: Path | None,
    force: bool,
    output_file: Path | None,
    lang: str | None,
    run: Path | None,
) -> None:
    """Write a request for missing operators in the form that the target's vendor asks for, filled in from a run.

    RUN is what `ops trace`, `ops predict` or `rehearse --summary-file` wrote, or a folder of `compare --dump`. What
    you have to fill in is marked; nothing is sent.

    \b
    torchferry ops request -t NAME --model model.py:build -o request.md
    torchferry ops request -t NAME ops.json --operator aten::linalg_matrix_exp
    torchferry ops request -t NAME ops.json --trace profile
    """
    wanted = named_target(target, Path())
    if (run is None) == (not model):
        raise UsageError(
            say("a run and --model are both given") if run else say("no run and no --model is given"),
            say(
                "give one of them: a file of `ops trace`, `ops predict` or `rehearse --summary-file`, or --model "
                "FILE.py:FUNCTION"
            ),
        )
    listed = listed_operators(wanted, card, table, "" if run is None else made_for(run))
    backend = wanted.backend
    if run is not None:
        asked = requested(run, listed, backend.PLUGIN, backend.DEVICE_TYPE, operators)
    else:
        from torchferry.ops.prediction import predicted

        needs = predicted(model, wanted, training=not inference, natives=listed)
        asked = of_run(needs, listed, backend.PLUGIN, backend.DEVICE_TYPE, operators)
    if trace is not None:
        from torchferry.profiling.comparison import open_run
        from torchferry.profiling.operator_time import with_times

        asked = with_times(asked, open_run(trace), force=force)
    facts = request_facts(backend)
    lang = lang or facts.language
    text = request_text(RequestText(asked, listed, facts, lang, wanted.title.render(lang), backend.DEVICE_TYPE))
    write(text.rstrip("\n").split("\n"), output_file)
    if facts.where:
        print_notice(f"torchferry: {say('hand in the request at {place}', place=facts.where).render()}")
