"""Run a command on the simulated card: what it finds in its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torchferry.core.command import run as run_command
from torchferry.core.command import run_aside as run_command_aside
from torchferry.core.torch_start import noting
from torchferry.rehearsal import site
from torchferry.rehearsal.config import VARIABLE, Rehearsal


def run(command: list[str], rehearsal: Rehearsal, folder: Path) -> int:
    """Run a command with the rehearsal in its environment and return its exit code.

    Raises:
        UsageError: there is no such command.
    """
    site.fill(folder, rehearsal)
    variables = {VARIABLE: str(folder), **noting(folder), "PYTHONPATH": site.search_path(folder, rehearsal)}
    return run_command(command, {**os.environ, **variables})


def run_aside(
    command: list[str], rehearsal: Rehearsal, folder: Path, where: Path, seconds: float, more: Mapping[str, str]
) -> tuple[int | None, str]:
    """Run a command with the rehearsal in its environment, in a folder, without input and for a limited time.

    Args:
        command: The command.
        rehearsal: What is rehearsed.
        folder: The session's folder.
        where: The folder that the command runs in.
        seconds: How long it may take.
        more: Variables that it gets beside those of the rehearsal; `PYTHONPATH` comes behind the rehearsal's.

    Returns:
        The exit code, None where the time ended it, and the last of what it printed.

    Raises:
        UsageError: there is no such command.
    """
    site.fill(folder, rehearsal)
    path = os.pathsep.join([*site.paths(folder, rehearsal), *filter(None, [more.get("PYTHONPATH", "")])])
    environment = {**os.environ, **more, VARIABLE: str(folder), **noting(folder), "PYTHONPATH": path}
    return run_command_aside(command, environment, where, seconds)
