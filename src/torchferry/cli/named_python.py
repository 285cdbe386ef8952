"""The Python that a user names with `--python`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.tool_environment import find_tool


def named_python(ctx: click.Context, parameter: click.Parameter, named: str | None) -> Path | None:
    """Return what is named: a path, a folder, or, as in a shell, a program on PATH: never a clone's `./python3`."""
    if named is None:
        return None
    if os.sep in named or not named or os.path.isdir(named):
        return Path(named)
    program = find_tool(named)
    if program is None:
        raise UsageError(
            say("there is no interpreter {name} on PATH", name=named),
            say("write ./{name} for a file of the current folder", name=named),
        )
    return Path(program)
