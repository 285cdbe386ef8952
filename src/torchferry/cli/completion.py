"""What shells complete: the command that prints it for a shell, the names of targets, and the option that takes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from torchferry.backends.registry import built_in, names
from torchferry.backends.target import Target
from torchferry.cli.help_text import help_text
from torchferry.core.terminal import print_data

SHELLS = ("bash", "zsh", "fish")

Function = TypeVar("Function", bound=Callable[..., Any])


def complete_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the targets whose names begin as what was typed."""
    return [name for name in names() if name.startswith(incomplete)]


def target_or(*words: str) -> Callable[[click.Context, click.Parameter, str], str]:
    """Return the callback of an option that takes a target, or one of some words: `NAME@2.13` becomes `NAME@2.13.0`.

    It raises a UsageError where there is no such target, or no table knows the version.
    """

    def requested(context: click.Context, parameter: click.Parameter, value: str) -> str:
        if not value or value in words or context.resilient_parsing:
            return value
        return str(Target.requested(value))

    return requested


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
        callback=target_or(),
        help=help_text("The accelerator: {targets}; VERSION is the plugin's.", targets=", ".join(built_in())),
        **rule,
    )


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options and targets; nothing is installed.

    \b
    eval "$(torchferry completion bash)"                                      in ~/.bashrc
    eval "$(torchferry completion zsh)"                                       in ~/.zshrc
    torchferry completion fish > ~/.config/fish/completions/torchferry.fish
    """
    from click.shell_completion import get_completion_class  # imported late: every command takes targets from here

    chosen = get_completion_class(shell)
    assert chosen is not None
    script = chosen(context.find_root().command, {}, "torchferry", "_TORCHFERRY_COMPLETE")
    print_data(script.source_template % script.source_vars())  # its own `source` starts the shell first
