"""`torchferry deploy kubernetes`: the manifests of a training job."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.cli.completion import target_option
from torchferry.cli.deploy_options import assignments, target_alone
from torchferry.cli.writing import file_option, write
from torchferry.deploy.containers import TrainingJob, kubernetes
from torchferry.deploy.plan import facts_of, settled


@click.command("kubernetes", context_settings={"allow_interspersed_args": False})
@target_option(required=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; can be repeated.")
@click.option("--name", default="training", show_default=True, help="Name of the job.")
@click.option("--nodes", type=click.IntRange(1, 10000), default=1, show_default=True, help="Number of pods.")
@click.option("--cards", type=click.IntRange(1, 1024), default=1, show_default=True, help="Cards per pod.")
@click.option("--resource", default="", metavar="NAME", help="Resource name of a card in the vendor's device plugin.")
@file_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    target: str,
    settings: tuple[str, ...],
    name: str,
    nodes: int,
    cards: int,
    resource: str,
    output_file: Path | None,
    command: tuple[str, ...],
) -> None:
    """Write the manifests of a job that runs COMMAND in pods with the target's cards.

    They request the resource of the vendor's device plugin, and have shared memory, volumes, variables and a service by
    which the pods find rank 0: MASTER_ADDR, MASTER_PORT, NNODES, NODE_RANK and NPROC_PER_NODE are set for torchrun.

    \b
    torchferry deploy kubernetes -t NAME --nodes 2 --cards 8 -- bash train.sh | kubectl apply -f -
    """
    facts = facts_of(target_alone(target))
    values = settled(facts, assignments(settings, "--set"))
    write(kubernetes(facts, values, TrainingJob(name, command, nodes, cards, resource)), output_file)
