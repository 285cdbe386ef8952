"""Where a result goes that is text."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.core.errors import TorchferryError
from torchferry.core.files import require_writable
from torchferry.core.messages import say


def writable(ctx: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    """Refuse a file that cannot be written before the work whose result goes there."""
    if file is not None:
        try:
            require_writable(file)
        except OSError as error:
            raise TorchferryError(say("cannot write {path}: {error}", path=file, error=error.strerror)) from None
    return file


file_option = click.option(
    "-o",
    "--output-file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="File to write to.",
)


def write(text: str, file: Path | None) -> None:
    """Write a result to a file, or to standard output.

    Raises:
        TorchferryError: the file cannot be written.
    """
    text = text.rstrip("\n") + "\n"
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=file, error=error.strerror)) from None
