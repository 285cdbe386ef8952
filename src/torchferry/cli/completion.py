"""What shells complete, the names of targets, and the option that takes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from torchferry.backends.registry import built_in, names
from torchferry.cli.help_text import help_text

Function = TypeVar("Function", bound=Callable[..., Any])


def complete_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the targets whose names begin as what was typed."""
    return [name for name in names() if name.startswith(incomplete)]


def target_option(*, required: bool = False) -> Callable[[Function], Function]:
    """Return the option `--target`, which takes one target with or without its version; empty where it is left out.

    Args:
        required: Whether it must not be left out.
    """
    rule: dict[str, Any] = {"required": True} if required else {"default": ""}
    return click.option(
        "-t",
        "--target",
        metavar="NAME[@VERSION]",
        shell_complete=complete_target,
        help=help_text("The accelerator: {targets}; VERSION is the plugin's.", targets=", ".join(built_in())),
        **rule,
    )
