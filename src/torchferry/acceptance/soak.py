"""The soak: the run again and again for hours, without an error, a restart, a NaN or growing memory.

What was passed is kept in the user's state folder after each pass, until the evidence of it is written. A soak that was
interrupted goes on from there, as long as the accept file, the command, the target and the project's code are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

from torchferry.acceptance.gates import Gate, GateMaker
from torchferry.acceptance.judging import memory_growth
from torchferry.acceptance.project import python_files
from torchferry.acceptance.run_end import end_of
from torchferry.acceptance.runs import AcceptanceRun
from torchferry.acceptance.situation import Situation, no_command
from torchferry.acceptance.steadiness import unsteady
from torchferry.acceptance.trends import GROWS
from torchferry.core import env
from torchferry.core.files import LARGEST_SETTINGS, read_regular, read_text
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say, say_plural

SCHEMA = 1

_LONGEST, _MOST_MORE = 3.0, 60.0
"""A pass that takes so many times as long as the longest that ended, and so many seconds more, hangs: the clock alone
would say that it passed."""


def state_file(situation: Situation) -> Path | None:
    """Return where the state of this soak is kept; None without a soak, and for a user without a home folder."""
    folder = env.state_folder()
    command = situation.command
    if folder is None or command is None or not situation.soak_seconds:
        return None
    said = [str(situation.file.root.resolve()), str(situation.target), situation.kind, *command.words, command.folder]
    key = hashlib.sha256("\0".join(said).encode() + situation.file.path.read_bytes())
    for path in python_files(situation):
        with contextlib.suppress(OSError):  # the stage of the syntax names it
            key.update(f"\0{path}\0".encode("utf-8", "surrogateescape") + read_regular(situation.file.root / path))
    return folder / "soak" / f"{key.hexdigest()[:32]}.json"


def forget(state: Path | None) -> None:
    """Remove the state of a soak whose evidence is written."""
    if state is not None:
        with contextlib.suppress(OSError):
            state.unlink()


def soak(situation: Situation) -> list[Gate]:
    """Run the command until the time is over.

    Raises:
        KeyboardInterrupt: it was interrupted; what was passed is kept.
    """
    judge = GateMaker("stability", "soak")
    wanted = say("{time} without an error, a restart, a NaN or memory growth", time=_shown(situation.soak_seconds))
    if not situation.soak_seconds:
        return [judge.unjudged("soak", say("--soak was not given"))]
    command = situation.command
    if command is None:
        return [judge.unjudged("soak", no_command(situation), wanted=wanted)]
    state = situation.soak_state
    passes = _read(state)
    if passes:
        situation.tell(say("resuming the soak after {time}", time=_shown(_total(passes))))
    while _total(passes) < situation.soak_seconds:
        left = max(1.0, situation.soak_seconds - _total(passes))
        limit = min(command.seconds, _longest(situation, passes))
        run = situation.run("soak", command, seconds=min(left, limit), interruptible=True)
        entry = _entry(run, left, limit, situation)
        passes.append(entry)
        _write(state, passes)
        if run.signalled:
            raise KeyboardInterrupt
        if entry["problem"]:
            break
        if run.seconds < 0.05:  # a command that does nothing would be started for hours
            entry["problem"] = say("the command ended within 0.05 s: repeating it shows nothing").render("en")
            break
    problem = next((entry["problem"] for entry in passes if entry["problem"]), "")
    measured = say(
        "{passes} in {time}",
        passes=say_plural("{count} pass", "{count} passes", count=len(passes)),
        time=_shown(_total(passes)),
    )
    return [judge.held(not problem, "soak", measured, wanted, say("{problem}", problem=problem))]


def _entry(run: AcceptanceRun, left: float, limit: float, situation: Situation) -> dict[str, Any]:
    """Return what is kept of a pass; one that the clock of the soak ended has passed."""
    by_clock = run.code is None and run.problem is None and left <= limit
    problem: Message | None = None
    if not run.ended_well and not by_clock and not run.signalled:
        problem = end_of(run)
        if run.code is None and run.problem is None:
            problem = say("a pass did not end within {time}", time=_shown(limit))
    problem = problem or unsteady(run)
    if problem is None:
        grown = memory_growth(situation, run)
        if grown is not None and grown.kind == GROWS:
            problem = say(
                "memory grows with the steps; look for what the program keeps, such as a list of losses without .item()"
            )
    return {
        "started": run.started,
        "seconds": run.seconds,
        "code": run.code,
        "problem": "" if problem is None else problem.render("en"),
    }


def _longest(situation: Situation, passes: list[dict[str, Any]]) -> float:
    """Return the seconds after which a pass hangs, by those that ended; without an end where none did."""
    ended = [float(entry["seconds"]) for entry in passes if entry["code"] == 0]
    if situation.judged is not None and situation.judged.finished:
        ended.append(situation.judged.seconds)
    return _LONGEST * max(ended) + _MOST_MORE if ended else math.inf


def _total(passes: list[dict[str, Any]]) -> float:
    return sum(float(entry["seconds"]) for entry in passes)


def _shown(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _read(state: Path | None) -> list[dict[str, Any]]:
    """Return the passes of an interrupted soak; none where there was none, one failed, or the file is not of ours."""
    if state is None:
        return []
    try:
        document = parsed_json(read_text(state, LARGEST_SETTINGS))
        if document["schema"] != SCHEMA:
            return []
        entries = [
            {
                "started": str(entry["started"]),
                "seconds": max(0.0, float(entry["seconds"])),
                "code": entry["code"],
                "problem": str(entry["problem"]),
            }
            for entry in document["passes"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [] if any(entry["problem"] for entry in entries) else entries


def _write(state: Path | None, passes: list[dict[str, Any]]) -> None:
    if state is None:
        return
    new = state.with_suffix(f".{os.getpid()}")
    state.parent.mkdir(parents=True, exist_ok=True)
    new.write_text(json.dumps({"schema": SCHEMA, "passes": passes}), encoding="utf-8")
    new.replace(state)
