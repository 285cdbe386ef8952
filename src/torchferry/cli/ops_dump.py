"""`torchferry ops dump`: which operators a plugin registers."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.cli.completion import target_option
from torchferry.cli.named_target import named_target
from torchferry.cli.writing import file_option, write
from torchferry.ops.dumping import dumped_from


@click.command("dump")
@target_option()
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A wheel of the plugin, loaded on the simulated driver, for a machine without a card.",
)
@click.option("--python", default="", metavar="PYTHON", help="The interpreter that has the plugin and torchferry.")
@file_option
def command(target: str, wheel: Path | None, python: str, output_file: Path | None) -> None:
    """Write which operators a plugin registers, as JSON, for `ops report --table`.

    Only registrations are read, and no operator is called: a plugin that runs missing operators on the CPU would
    otherwise seem to have every operator.

    \b
    torchferry ops dump -t NAME -o list.json                    on a machine with the plugin
    torchferry ops dump -t NAME --wheel PLUGIN.whl -o list.json   without one
    """
    write(dumped_from(named_target(target, Path()), wheel, python).to_json(), output_file)
