"""`torchferry lsp`: show findings and offer fixes in an editor."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.cli.choices import Choices
from torchferry.cli.completion import target_option
from torchferry.cli.extra import of_extra
from torchferry.cli.served import until_told_to_end
from torchferry.cli.settings import settle
from torchferry.core.messages import language
from torchferry.core.progress import never_shown
from torchferry.rules.analysis import Request


@click.command("lsp")
@target_option()
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the messages.")
def command(target: str, lang: str | None) -> None:
    """Show findings and offer fixes in an editor, over the Language Server Protocol on standard input and output.

    An editor starts this. Settings are those of the project (torchferry.toml); without `--target`, its target.
    """
    with of_extra("lsp", "pygls", "lsprotocol"):
        from torchferry.assistant.language_server import ClientInput, FindingServer  # imported late: it needs an extra
        from torchferry.assistant.server_log import log_briefly
    log_briefly("pygls")
    never_shown()
    spoken = lang or language()

    def request_of(root: Path) -> Request:
        choices = Choices((root,), target, (), (), (), spoken, 1, None, None, False, None)
        return settle(choices, rewrite=False).request

    with until_told_to_end():
        FindingServer(request_of, spoken).start_io(ClientInput())
