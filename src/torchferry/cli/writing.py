"""Where a result goes that is text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from torchferry.core.config import project_root
from torchferry.core.errors import TorchferryError
from torchferry.core.files import require_creatable, require_writable, write_whole
from torchferry.core.json_text import whole_characters
from torchferry.core.messages import say
from torchferry.core.terminal import print_data, print_text, visible_text
from torchferry.core.write_fence import require_in_roots


def writable(ctx: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    """Refuse a file that cannot be written before the work whose result goes there."""
    return _examined(file, require_writable)


def creatable(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """As `writable`, for a folder or file that is made with the folders above it."""
    return _examined(path, require_creatable)


def _examined(path: Path | None, require: Callable[[Path], None]) -> Path | None:
    if path is not None:
        require_in_roots(path)
        _refuse_link_out_of_project(path)
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


def write(result: str | Iterable[str], file: Path | None) -> None:
    """Write a result to a file, or to standard output; where it cannot be written whole, an old file is as it was.

    A text is data, which is written as it is; lines are for people, and are escaped.

    Raises:
        TorchferryError: the file cannot be written.
    """
    if file is None and not isinstance(result, str):
        print_text(*result)
        return
    text = whole_characters((result if isinstance(result, str) else visible_text(result)).rstrip("\n") + "\n")
    if file is None:
        print_data(text)
        return
    write_data(text.encode("utf-8", "surrogateescape"), file)


def write_data(data: bytes, file: Path) -> None:
    """As `write`, for bytes and a file."""
    _refuse_link_out_of_project(file)
    try:
        write_whole(file, data)
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=file, error=error.strerror)) from None


def _refuse_link_out_of_project(path: Path) -> None:
    """Refuse a link that leads out of its project: a clone can bring one along, with the name of a usual output.

    Raises:
        TorchferryError: it is one.
    """
    if not path.is_symlink():
        return
    top, real = project_root(path.parent), Path(os.path.realpath(path))
    if top is not None and not real.is_relative_to(top):
        raise TorchferryError(
            say("{path} is a link that leads out of the project, to {real}", path=path, real=real),
            say("name that file itself, or remove the link"),
        )
