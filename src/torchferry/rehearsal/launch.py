"""Run a command on the simulated card: what it finds in its environment."""

from __future__ import annotations

import os
from pathlib import Path

from torchferry.core.command import run as run_command
from torchferry.rehearsal import site
from torchferry.rehearsal.config import VARIABLE, Rehearsal


def run(command: list[str], rehearsal: Rehearsal, folder: Path) -> int:
    """Run a command with the rehearsal in its environment and return its exit code.

    Raises:
        UsageError: there is no such command.
    """
    site.fill(folder, rehearsal)
    environment = {**os.environ, VARIABLE: str(folder), "PYTHONPATH": site.search_path(folder, rehearsal)}
    return run_command(command, environment)
