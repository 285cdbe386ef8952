"""Examine the numbers of a command: what its processes find in their environment, and what they leave behind."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchferry.core.command import run as run_command
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say

SITE = Path(__file__).with_name("site")
"""In front of PYTHONPATH: an entry point by which torch (2.5 and later) loads the tool."""

FOLDER = "TORCHFERRY_NUMERICS"
"""Set for the processes of an examined command: the folder with the settings, where they leave what they found."""

SETTINGS = "settings.json"


@dataclass(frozen=True)
class ToolSettings:
    """Which tool examines a command, and how.

    Attributes:
        tool: Module of this room that is imported in the processes: it has `begin(options, folder)`, which returns an
            object with `finish() -> dict`.
        options: What the tool was asked for: values that JSON has.
        ranks: The only ranks that are examined; all where it is empty.
        check_ranks: Ask each so many steps whether the ranks agree, on all of them; 0 for never.
    """

    tool: str
    options: dict[str, Any] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    check_ranks: int = 0

    def write(self, folder: Path) -> None:
        """Write the settings for the processes."""
        document = {
            "tool": self.tool,
            "options": self.options,
            "ranks": list(self.ranks),
            "check_ranks": self.check_ranks,
        }
        (folder / SETTINGS).write_text(json.dumps(document), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> ToolSettings:
        """Read the settings that `write` left."""
        document = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        return cls(document["tool"], document["options"], tuple(document["ranks"]), document["check_ranks"])


@dataclass(frozen=True)
class Outcome:
    """What became of an examined command.

    Attributes:
        code: Its exit code.
        results: What each process left, by rank and then by process.
        broken: Processes that began and left nothing, such as killed ones: `rank 1 (process 4711)`.
    """

    code: int
    results: tuple[dict[str, Any], ...]
    broken: tuple[str, ...]


def run(command: list[str], settings: ToolSettings, folder: Path) -> Outcome:
    """Run a command under a tool.

    Args:
        command: What to run.
        settings: The tool.
        folder: An empty folder, for settings and results.

    Raises:
        UsageError: there is no such command, or its environment keeps torch from loading the tool.
    """
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise UsageError(
            say("TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading the tool"),
            say("unset it, or use the tool in the program, as docs/en/numerics.md shows"),
        )
    settings.write(folder)
    path = os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    code = run_command(command, {**os.environ, FOLDER: str(folder.absolute()), "PYTHONPATH": path})
    return Outcome(code, *_collected(folder))


def _collected(folder: Path) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    results = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("process-*.json")]
    ended = {result["process"] for result in results}
    begun = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("begun-*.json")]
    results += [  # what was found before it was lost
        json.loads(path.read_text(encoding="utf-8"))
        for process in begun
        if process["process"] not in ended and (path := folder / f"found-{process['process']}.json").exists()
    ]
    broken = [
        f"rank {process['rank']} (process {process['process']})" for process in begun if process["process"] not in ended
    ]
    return tuple(sorted(results, key=lambda result: (result["rank"], result["process"]))), tuple(sorted(broken))


def require_examined(outcome: Outcome) -> None:
    """Refuse to report on nothing.

    Raises:
        TorchferryError: no process of the command loaded torch under the tool.
    """
    if not outcome.results and not outcome.broken:
        raise TorchferryError(
            say("NOTHING WAS EXAMINED: no process of the command imported torch"),
            say("write what you would type without torchferry, such as {example}", example="-- python train.py"),
        )
