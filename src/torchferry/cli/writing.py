"""Where a result goes that is text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from torchferry.core.errors import TorchferryError
from torchferry.core.files import require_creatable, require_writable, write_whole
from torchferry.core.json_text import whole_characters
from torchferry.core.messages import say


def writable(ctx: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    """Refuse a file that cannot be written before the work whose result goes there."""
    return _examined(file, require_writable)


def creatable(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """As `writable`, for a folder or file that is made with the folders above it."""
    return _examined(path, require_creatable)


def _examined(path: Path | None, require: Callable[[Path], None]) -> Path | None:
    if path is not None:
        try:
            require(path)
        except OSError as error:
            raise TorchferryError(say("cannot write {path}: {error}", path=path, error=error.strerror)) from None
    return path


file_option = click.option(
    "-o",
    "--output-file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="File to write to.",
)


def write(text: str, file: Path | None) -> None:
    """Write a result to a file, or to standard output; where it cannot be written whole, an old file is as it was.

    Raises:
        TorchferryError: the file cannot be written.
    """
    text = whole_characters(text.rstrip("\n") + "\n")
    if file is None:
        click.echo(text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"), nl=False)
        return
    write_data(text.encode("utf-8", "surrogateescape"), file)


def write_data(data: bytes, file: Path) -> None:
    """As `write`, for bytes and a file."""
    try:
        write_whole(file, data)
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=file, error=error.strerror)) from None
