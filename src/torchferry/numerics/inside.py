"""In an examined process: begin the tool when torch is imported, and leave what it found when the process ends.

It never breaks `import torch`. What it cannot do it says on standard error, and the run counts as not examined.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Protocol

from torchferry.numerics.launched import FOLDER, Settings


class Tool(Protocol):
    """What examines a process."""

    def finish(self) -> dict[str, Any]:
        """End the examination and return what was found, in values that JSON has."""


def rank() -> int:
    """Return this process' rank: what launchers set, or 0."""
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return 0


def autoload() -> None:
    """Begin the tool that the environment orders."""
    named = os.environ.get(FOLDER, "")
    if not named:
        return
    folder = Path(named)
    try:
        settings = Settings.read(folder)
        watch = _watched(settings)
        if settings.ranks and rank() not in settings.ranks:
            return
        module = importlib.import_module(settings.tool)
        _note(folder / f"begun-{os.getpid()}.json", {"rank": rank(), "process": os.getpid()})
        tool: Tool = module.begin(settings.options, folder)
    except BaseException as error:
        print(f"torchferry: the examination did not begin: {error!r}", file=sys.stderr, flush=True)
        return
    process = os.getpid()

    def leave() -> None:
        if os.getpid() != process:
            return  # a fork has what its parent found so far, and must not report it again
        try:
            found = {**tool.finish(), **({} if watch is None else watch.finish())}
        except BaseException:
            traceback.print_exc()
            found = {"error": traceback.format_exc()}
        _note(
            folder / f"process-{process}.json",
            {"rank": rank(), "process": process, "command": sys.argv[:1], **found},
        )

    atexit.register(leave)


def _watched(settings: Settings) -> Tool | None:
    """Let this rank answer the others, also where it is not examined itself."""
    if not settings.check_ranks:
        return None
    tool: Tool = importlib.import_module("torchferry.numerics.ranks.examined").begin({"every": settings.check_ranks})
    return tool


def _note(path: Path, content: dict[str, Any]) -> None:
    """Write whole or not at all, so that a killed process leaves no half file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.replace(path)
