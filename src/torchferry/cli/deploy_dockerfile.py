"""`torchferry deploy dockerfile`: a Dockerfile and a compose file with what the cards need."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.cli.completion import target_option
from torchferry.cli.deploy_options import assignments, target_alone
from torchferry.cli.writing import creatable, write
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.terminal import print_data, print_text
from torchferry.deploy import containers
from torchferry.deploy.plan import facts_of, settled


@click.command("dockerfile")
@target_option(required=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; can be repeated.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    callback=creatable,
    help="Folder to write both files into.",
)
def command(target: str, settings: tuple[str, ...], output: Path | None) -> None:
    """Write a Dockerfile and compose.yaml for a project: image, devices, shared memory, variables, privileges.

    \b
    torchferry deploy dockerfile -t NAME
    torchferry deploy dockerfile -t NAME -o .
    """
    facts = facts_of(target_alone(target))
    values = settled(facts, assignments(settings, "--set"))
    files = {"Dockerfile": containers.dockerfile(facts, values), "compose.yaml": containers.compose(facts, values)}
    if output is None:
        print_data("\n".join(f"# --- {name}\n{text}" for name, text in files.items()))
        return
    for name in files:
        if (output / name).exists():
            raise UsageError(
                say("{path} already exists, so nothing was written", path=output / name),
                say("name another folder with --output, or move the file away"),
            )
    output.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write(text, output / name)
        print_text(str(output / name))
