"""Runs a command and learns which operators it calls on the accelerator: this machine's, or the simulated card."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchferry.core import exitcodes
from torchferry.core.coded_errors import ProgramError
from torchferry.core.command import run as run_command
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.temporary import temporary_folder
from torchferry.core.torch_start import noting
from torchferry.numerics.framework import launcher
from torchferry.numerics.framework.launcher import Outcome, ToolSettings, require_examined
from torchferry.ops.needs import TRACE, OperatorNeed, RunNeeds, merged, need_of
from torchferry.rehearsal import site
from torchferry.rehearsal.config import VARIABLE, Rehearsal

_TOOL = "torchferry.ops.recorder:begin"


def traced(command: list[str], rehearsal: Rehearsal | None = None) -> RunNeeds:
    """Return what a command needs of the accelerator.

    Args:
        command: What to run.
        rehearsal: The simulated card that it runs on; None for this machine's accelerator, or for the rehearsal around
            this process.

    Raises:
        ProgramError: no process loaded torch, or none of them called anything on an accelerator.
        UsageError: there is no such command, or its environment keeps torch from loading the tool.
    """
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise UsageError(
            say("TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading the tool"), say("unset it for this command")
        )
    with temporary_folder("torchferry-ops-") as folder:
        settings = ToolSettings(_TOOL)
        if rehearsal is None:
            outcome = launcher.run(command, settings, folder)
        else:
            if rehearsal.profile.fallback == "error":
                # what the card lacks is found in the list; the program is to go on to its end
                rehearsal = replace(rehearsal, profile=replace(rehearsal.profile, fallback="silent"))
            outcome = run_rehearsed(command, settings, folder, rehearsal)
    require_examined(outcome)
    return _of(outcome, command, "" if rehearsal is None else str(rehearsal.resolved()))


def run_rehearsed(command: list[str], settings: ToolSettings, folder: Path, rehearsal: Rehearsal) -> Outcome:
    """Run a command on a simulated card, under a tool that begins in its processes.

    Args:
        command: What to run.
        settings: The tool.
        folder: An empty folder, for settings and results.
        rehearsal: The simulated card.

    Raises:
        UsageError: there is no such command.
    """
    session, tool = folder / "rehearsal", folder / "tool"
    session.mkdir()
    tool.mkdir()
    site.fill(session, rehearsal)
    settings.write(tool)
    path = os.pathsep.join([str(launcher.SITE), site.search_path(session, rehearsal)])
    variables = {VARIABLE: str(session), launcher.FOLDER: str(tool), **noting(tool), "PYTHONPATH": path}
    return launcher.outcome(run_command(command, {**os.environ, **variables}), tool)


def _of(outcome: Outcome, command: list[str], target: str) -> RunNeeds:
    parts: list[list[OperatorNeed]] = []
    devices: set[str] = set()
    notes: list[str] = []
    torch = ""
    for result in outcome.results:
        if "error" in result:
            error = str(result["error"]).strip().splitlines()[-1]
            notes.append(say("rank {rank}: {error}", rank=result["rank"], error=error).render())
            continue
        torch = str(result["torch"])
        devices.update(result["devices"])
        parts.append([need_of(entry) for entry in result["needs"]])
    if not any(parts):
        raise ProgramError(outcome.code or exitcodes.ERROR, *_nothing(outcome, target))
    return RunNeeds(
        TRACE,
        tuple(command),
        torch,
        target,
        " ".join(sorted(devices)),
        merged(parts),
        outcome.code,
        len(outcome.results) - len(outcome.broken),
        outcome.broken,
        tuple(notes),
    )


def _nothing(outcome: Outcome, target: str) -> tuple[Any, Any]:
    """Return what to say where no operator ran on an accelerator."""
    if outcome.code:
        return (
            say("the command ended with exit code {code} before anything ran on an accelerator", code=outcome.code),
            say("see its own output for the cause; if it succeeds without torchferry, please report that to us"),
        )
    what = say("nothing ran on an accelerator: the command computed on the CPU alone")
    if target:
        return what, say("the program must use the card's device; start a CUDA program with `-- torchferry run -- ...`")
    return what, say("without an accelerator, name a target: `torchferry ops trace -t NAME -- ...`")
