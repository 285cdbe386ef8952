"""What shells complete: the names of targets."""

from __future__ import annotations

import click

from torchferry.backends.registry import names


def complete_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the targets whose names begin as what was typed."""
    return [name for name in names() if name.startswith(incomplete)]
