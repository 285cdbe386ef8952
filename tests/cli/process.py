"""Running torchferry as its users do: as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def torchferry(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; output is text, the environment has no language and no colour of its own."""
    settings = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME")}
    settings |= {"LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(env or {})}
    return subprocess.run(
        [sys.executable, "-m", "torchferry", *map(str, arguments)],
        cwd=cwd, env=settings, capture_output=True, text=True, check=False,
    )  # fmt: skip
