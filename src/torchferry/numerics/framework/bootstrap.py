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
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from torchferry.numerics.framework.launcher import FOLDER, ToolSettings


class ProcessTool(Protocol):
    """What examines a process."""

    def finish(self) -> dict[str, Any]:
        """End the examination and return what was found, in values that JSON has."""


_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
"""Where launchers say a process' rank."""


def rank() -> int:
    """Return this process' rank: what torch.distributed says once it is initialised, what launchers set, or 0.

    A program that starts its processes itself says the rank only when it initialises torch.distributed: who asks for
    the rank asks as late as it can.
    """
    stated = known_rank()
    return 0 if stated is None else stated


def known_rank() -> int | None:
    """Return this process' rank, or None where nobody has said it up to now."""
    distributed: Any = sys.modules.get("torch.distributed")
    initialised = getattr(distributed, "is_initialized", None)  # absent while torch is being imported, or built without
    if initialised is not None and initialised():
        return int(distributed.get_rank())
    for name in _RANKS:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def is_selected_rank(ranks: Collection[int] | None) -> bool:
    """Whether this process is among the ranks that are asked for; all are where it is None.

    A process whose rank nobody has said yet may be; it is to be asked again.
    """
    if ranks is None:
        return True
    stated = known_rank()
    return stated is None or stated in ranks


def autoload() -> None:
    """Begin the tool that the environment orders."""
    named = os.environ.get(FOLDER, "")
    if not named:
        return
    folder = Path(named)
    try:
        settings = ToolSettings.read(folder)
        watch = _begin_rank_watch(settings)
        if not is_selected_rank(settings.ranks or None):
            return
        module = importlib.import_module(settings.tool)
        begun = folder / f"begun-{os.getpid()}.json"
        _note(begun, {"rank": rank(), "process": os.getpid()})
        tool: ProcessTool = module.begin(settings.options, folder)
    except BaseException as error:
        print(f"torchferry: the examination did not begin: {error!r}", file=sys.stderr, flush=True)
        return
    process = os.getpid()

    def leave() -> None:
        if os.getpid() != process:
            return  # a fork has what its parent found so far, and must not report it again
        try:
            document = {**tool.finish(), **({} if watch is None else watch.finish())}
        except BaseException:
            traceback.print_exc()
            document = {"error": traceback.format_exc()}
        if settings.ranks and rank() not in settings.ranks:
            begun.unlink(missing_ok=True)  # its rank was not known when it began
            return
        _note(
            folder / f"process-{process}.json",
            {"rank": rank(), "process": process, "command": sys.argv[:1], **document},
        )

    atexit.register(leave)


def _begin_rank_watch(settings: ToolSettings) -> ProcessTool | None:
    """Let this rank answer the others, also where it is not examined itself."""
    if not settings.check_ranks:
        return None
    tool: ProcessTool = importlib.import_module("torchferry.numerics.ranks.entrypoint").begin(
        {"every": settings.check_ranks}
    )
    return tool


def note_found(folder: Path, document: dict[str, Any]) -> None:
    """Leave what was found up to now, for a process that may be killed before it ends."""
    process = os.getpid()
    _note(folder / f"found-{process}.json", {"rank": rank(), "process": process, **document})


def _note(path: Path, content: dict[str, Any]) -> None:
    """Write whole or not at all, so that a killed process leaves no half file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.replace(path)
