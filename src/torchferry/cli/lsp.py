"""`torchferry lsp`: show findings and offer fixes in an editor."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.cli.choices import Choices
from torchferry.cli.completion import target_option
from torchferry.cli.settings import settle
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import language, say
from torchferry.rules.analysis import Request


@click.command("lsp")
@target_option()
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the messages.")
def command(target: str, lang: str | None) -> None:
    """Show findings and offer fixes in an editor, over the Language Server Protocol on standard input and output.

    An editor starts this. Settings are those of the project (torchferry.toml); without `--target`, its target.
    """
    try:
        from torchferry.assistant.language_server import FindingServer  # imported late: it needs an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise TorchferryError(
            say("`torchferry lsp` needs the package {name}", name="pygls"), say("pip install 'torchferry[lsp]'")
        ) from None
    spoken = lang or language()

    def request_of(root: Path) -> Request:
        choices = Choices((root,), target, (), (), (), spoken, 1, None, None, False, None)
        return settle(choices, rewrite=False).request

    FindingServer(request_of, spoken).start_io()
