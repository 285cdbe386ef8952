"""`torchferry ops report`: which operators a target has, lacks or runs on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import click

from torchferry.backends.registry import built_in
from torchferry.backends.target import Target
from torchferry.cli.completion import complete_target
from torchferry.cli.help_text import help_text
from torchferry.cli.writing import write
from torchferry.core.config import load
from torchferry.core.errors import UsageError
from torchferry.core.messages import language, say
from torchferry.ops import report
from torchferry.ops.kernels import from_table, from_torch
from torchferry.ops.lists import of_target


@click.command("report")
@click.option(
    "-t",
    "--target",
    default="",
    metavar="NAME[@VERSION]",
    shell_complete=complete_target,
    help=help_text("The accelerator: {targets}; VERSION is the plugin's.", targets=", ".join(built_in())),
)
@click.option("--card", default="", metavar="NAME", help="Model of the card, such as 910B or S4000.")
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the report.")
@click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="File to write to.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(target: str, card: str, output_format: str, output_file: Path | None, lang: str | None) -> None:
    """Say how many of torch's operators a target has.

    Counted are the operators that a device must bring a kernel for, as torch's dispatcher says on this machine; without
    torch, those of torchferry's table.

    \b
    torchferry ops report -t NAME
    """
    lang = lang or language()
    wanted = target or load(Path()).target
    if not wanted:
        raise UsageError(
            say("no target is named"),
            say("use `--target` with one of {names}, or set `target` in torchferry.toml", names=", ".join(built_in())),
        )
    listed = of_target(Target.named(wanted), card)
    kernels = from_torch() or from_table()
    result = report.document(listed, kernels)
    if output_format == "json":
        write(json.dumps(result, indent=1, ensure_ascii=False), output_file)
    else:
        write("\n".join(report.lines(result, listed, kernels, lang)), output_file)
