"""`torchferry mcp`: answer a coding agent over the Model Context Protocol."""

from __future__ import annotations

import os
from pathlib import Path

import click

from torchferry.cli.completion import target_option
from torchferry.cli.extra import of_extra
from torchferry.cli.served import until_told_to_end
from torchferry.core.messages import language
from torchferry.core.progress import never_shown


@click.command("mcp")
@target_option()
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder that the agent may access; can be repeated; default: the current folder.",
)
@click.option("--allow-write", is_flag=True, help="Let the agent apply fixes, record decisions, port, and undo them.")
@click.option(
    "--allow-run",
    is_flag=True,
    help="Let the agent run programs, on the simulated card or the real one, with your rights.",
)
@click.option(
    "--answers",
    type=click.Choice(["structured", "text"]),
    default="structured",
    show_default=True,
    help="Form of the answers; `text` for an agent that shows its model no structured content.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the answers.")
def command(
    target: str, roots: tuple[Path, ...], allow_write: bool, allow_run: bool, answers: str, lang: str | None
) -> None:
    """Answer a coding agent over the Model Context Protocol, on standard input and output.

    The agent can scan, explain rules and names, preview fixes, examine the machine and compare records. It can write
    files and run programs only where you allow it.

    \b
    torchferry mcp --root ~/project -t NAME
    """
    with of_extra("mcp", "mcp", "anyio", "pydantic"):
        import anyio  # imported late, as the server: it needs an extra

        from torchferry.assistant.calls import Allowed
        from torchferry.assistant.mcp_server import serve
        from torchferry.assistant.roots import Roots
    never_shown()
    os.environ["TORCHFERRY_LANG"] = lang or language()  # of the commands that it runs, too
    allowed = Allowed(Roots(roots or (Path(),)), target, allow_write, allow_run, lang or language())
    with until_told_to_end():
        anyio.run(serve, allowed, answers == "text")
