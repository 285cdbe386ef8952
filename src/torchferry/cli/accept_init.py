"""`torchferry accept init`: the first accept file, from the project and the log of its CUDA run."""

from __future__ import annotations

import os
from pathlib import Path

import click

from torchferry.acceptance import initial
from torchferry.acceptance.acceptfile import NAME
from torchferry.cli.writing import writable
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_text, visible_text


@click.command("init")
@click.option(
    "--log",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Log of the CUDA run: its metrics become the baseline.",
)
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    default=Path(NAME),
    show_default=True,
    help="File to write; it must not exist, and its folder is the project.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(log: Path | None, file: Path, lang: str | None) -> None:
    """Write torchferry.accept.toml, with comments, from the programs, git, the licence, the README and a log.

    Nothing is guessed: what no file says stays empty. Complete it, then run `torchferry accept`.

    \b
    torchferry accept init
    torchferry accept init --log cuda.log
    """
    lang = lang or language()
    root = file.absolute().parent
    if file.exists() or file.is_symlink():
        raise UsageError(say("{path} exists", path=file), say("name another with --file, or remove it"))
    logged = None
    if log is not None:
        shown = os.path.relpath(log, root) if log.absolute().is_relative_to(root) else str(log.absolute())
        logged = initial.logged(log, shown)
    facts = initial.facts(root)
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(visible_text(initial.text(facts, logged).rstrip("\n").split("\n")))
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=file, error=error.strerror)) from None
    print_text(say("wrote {path}", path=file).render(lang))
    print_text(say("complete what is empty in it, then: {command}", command="torchferry accept --show").render(lang))
