"""`torchferry help COMMAND`: what `torchferry COMMAND --help` prints."""

from __future__ import annotations

import click

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.terminal import print_text


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command, or of torchferry.

    \b
    torchferry help scan
    torchferry help compare diff
    """
    shown = context.find_root()
    for number, word in enumerate(words):
        group = shown.command
        below = group.get_command(shown, word) if isinstance(group, click.Group) else None
        if below is None:
            raise UsageError(
                say("there is no command `{words}`", words=" ".join(("torchferry", *words[: number + 1]))),
                say("`torchferry help` lists the commands"),
            )
        shown = click.Context(below, info_name=word, parent=shown)
    print_text(*shown.get_help().splitlines())
