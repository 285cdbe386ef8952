"""The options of a vendor's own converter, for people who come from it: they say the same as torchferry's."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import click

from torchferry.cli.completion import Function
from torchferry.core.errors import UsageError
from torchferry.core.messages import say

_OPTIONS = (
    click.option(
        "-r",
        "--root_path",
        "root_path",
        type=click.Path(exists=True, path_type=Path),
        help="The same as PATHS, by the name that a converter of the vendors has for it.",
    ),
    click.option(
        "-l",
        "--launch_path",
        "launch_path",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The program that is started; the plugin's import is placed in every program by itself.",
    ),
    click.option(
        "-e",
        "--excluded_path",
        "excluded_path",
        default="",
        metavar="PATH,PATH",
        help="The same as --exclude, for several paths with commas between them.",
    ),
)


def converter_options(function: Function) -> Function:
    """Add the options to a command that has PATHS and --exclude, which it gets with what the options say.

    Raises:
        UsageError: the program is not below the paths.
    """

    @wraps(function)
    def command(
        *,
        paths: tuple[Path, ...],
        exclude: tuple[str, ...],
        root_path: Path | None,
        launch_path: Path | None,
        excluded_path: str,
        **others: Any,
    ) -> Any:
        if root_path is not None and paths:
            raise UsageError(say("-r and PATHS say the same: give one of them"))
        named = paths or (() if root_path is None else (root_path,))
        roots = [path.resolve() for path in named or (Path("."),) if str(path) != "-"]
        if launch_path is not None and not any(launch_path.resolve().is_relative_to(root) for root in roots):
            raise UsageError(
                say("{path} is not below the paths to migrate", path=launch_path),
                say("name a program of the project"),
            )
        left_out = [_below(text, roots) for text in excluded_path.split(",") if text.strip()]
        return function(paths=named, exclude=(*exclude, *left_out), **others)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


def _below(text: str, roots: list[Path]) -> str:
    """Return a path as `--exclude` takes it: from the project's folder."""
    path = Path(text.strip()).resolve()
    for root in roots:
        if path != root and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return text.strip()
