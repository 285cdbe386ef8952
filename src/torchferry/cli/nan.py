"""`torchferry nan`: run a command and say where the first NaN or infinity came from."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from torchferry.cli import agreement
from torchferry.cli.writing import write
from torchferry.core import env, exitcodes
from torchferry.numerics.framework.launcher import ToolSettings, require_examined, run
from torchferry.numerics.report.nan import document, failed, lines, nothing_ran, table
from torchferry.rehearsal.config import note_verdict


@click.command("nan", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--level",
    type=click.Choice(["watch", "operator"]),
    default="watch",
    show_default=True,
    help="`watch` reads one number a step and runs a bad step again; `operator` looks at every result.",
)
@click.option("--start-step", type=click.IntRange(0), default=0, help="First step to look at.")
@click.option("--end-step", type=click.IntRange(0), default=None, help="First step not to look at any more.")
@click.option("--target-op", multiple=True, metavar="NAME", help="Look at this operator only, such as aten.addmm.")
@click.option("--white-list", multiple=True, metavar="NAME", help="Do not look at this operator.")
@click.option("--rank", "ranks", type=click.IntRange(0), multiple=True, help="Look at this rank only.")
@agreement.option
@click.option("--stop", is_flag=True, help="End the program at the first step that is not finite.")
@click.option(
    "--dump",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the call that failed into this folder, for `torchferry replay`, and end the program.",
)
@click.option(
    "-f",
    "--output-format",
    type=click.Choice(["text", "json", "csv", "html"]),
    default="text",
    help="Form of the summary; `csv` has a row for each call that was found.",
)
@click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    level: str,
    start_step: int,
    end_step: int | None,
    target_op: tuple[str, ...],
    white_list: tuple[str, ...],
    ranks: tuple[int, ...],
    check_ranks: int,
    stop: bool,
    dump: Path | None,
    output_format: str,
    output_file: Path | None,
    lang: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and say where the first NaN or infinity came from.

    COMMAND is what you type without torchferry: `python train.py`, `torchrun ...`, a shell script. Nothing in it
    changes. Named are the operator, the module, the step, forward or backward, the line, and what the operator was
    given. Infinities that a gradient scaler expects are counted apart, and those that become finite again do not count.

    \b
    torchferry nan -- python train.py
    torchferry rehearse -t NAME -- torchferry nan -- python train.py
    """
    lang = lang or env.language()
    options = {
        "level": level,
        "start_step": start_step,
        "end_step": end_step,
        "target_op": list(target_op) or None,
        "white_list": list(white_list),
        "stop": stop,
        "dump_error_data": dump is not None,
        "enable_ranks": list(ranks) or None,
        "output_dir": str(dump.absolute()) if dump is not None else "",
    }
    with tempfile.TemporaryDirectory(prefix="torchferry-nan-", ignore_cleanup_errors=True) as name:
        outcome = run(
            list(command), ToolSettings("torchferry.numerics.nan.entrypoint", options, ranks, check_ranks), Path(name)
        )
    require_examined(outcome)
    ranks_differ = agreement.tell(outcome, lang)
    result = document(outcome, command, level)
    said = "torchferry: " + "\n".join(lines(result, lang))
    write(_written(result, said, output_format, lang), output_file)
    if output_file is not None:
        click.echo(said, err=True)
    code = outcome.code
    if code == 0 and nothing_ran(result):
        code = exitcodes.ERROR
    elif code == 0 and (ranks_differ or result["first"] is not None or failed(result)):
        code = exitcodes.FINDINGS
        note_verdict("torchferry nan")
    sys.exit(code)


def _written(result: dict[str, Any], said: str, output_format: str, lang: str) -> str:
    if output_format == "json":
        return json.dumps(result, indent=1, ensure_ascii=False)
    if output_format == "csv":
        return table(result)
    if output_format == "html":
        from torchferry.numerics.report.pages import nan_page

        return nan_page(result, lang)
    return said
