"""Running torchferry as its users do: as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.warm_python import ferry


def interruptible(command: list[str]) -> list[str]:
    """Return a command that Ctrl-C can end, also where the tests run in the background, which ignores it."""
    begin = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", begin, *command]


def torchferry(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; output is text, the environment has no language and no colour of its own; `given` is its input.

    Its process has torchferry imported already, unless a variable is for Python.
    """
    settings = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME")}
    settings |= {"LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(env or {})}
    is_for_python = settings["LC_ALL"] != "C.UTF-8" or any(name.startswith("PYTHON") for name in settings)
    return subprocess.run(
        [sys.executable if is_for_python else ferry(), "-m", "torchferry", *map(str, arguments)],
        cwd=cwd, env=settings, input=given, capture_output=True, text=True, check=False,
    )  # fmt: skip
