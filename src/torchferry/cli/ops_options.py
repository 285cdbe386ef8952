"""Options that the commands of `torchferry ops` share."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.backends.target import Target
from torchferry.ops.lists import OperatorList, of_dump, of_target

card_option = click.option("--card", default="", metavar="NAME", help="Model of the card, such as 910B or S4000.")
model_option = click.option(
    "--model",
    default="",
    metavar="FILE.py:FUNCTION",
    help="Predict what this function's model or step needs, and report on that.",
)
inference_option = click.option(
    "--inference", is_flag=True, help="For a function that returns a model: leave out backward and optimizer."
)


def listed_operators(wanted: Target, card: str, table: Path | None, made_for: str = "") -> OperatorList:
    """Return what a target has: by a dump, else by its own list.

    Of a target without a version, that is the list of the version that a run was made for, else of the one for the
    installed torch.

    Args:
        wanted: The target; its version counts if it has one.
        card: Model of the card; empty: the usual one.
        table: What `ops dump` wrote.
        made_for: Target of the run as its file says it, `NAME` or `NAME@VERSION`; empty where there is no run yet.
    """
    if table is not None:
        return of_dump(table, wanted, card)
    name, _, version = made_for.partition("@")
    if version and name == wanted.name and not wanted.version:
        return of_target(Target(wanted.backend, version), card)
    return of_target(wanted.for_installed_torch(), card)
