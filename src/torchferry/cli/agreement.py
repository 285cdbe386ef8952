"""`--check-ranks`: whether the ranks agree, asked beside another examination of a command."""

from __future__ import annotations

import click

from torchferry.numerics.framework.launcher import Outcome
from torchferry.numerics.report import ranks

option = click.option(
    "--check-ranks", type=click.IntRange(0), default=0, metavar="N", help="Each N steps, ask whether the ranks agree."
)


def tell(outcome: Outcome, lang: str) -> bool:
    """Say what the ranks said of each other, if they were asked, and return whether something differs."""
    for line in ranks.lines(outcome, lang):
        click.echo(f"torchferry: {line}", err=True)
    return ranks.differ(outcome)
