"""Runs a command of the accept file, on this machine or on the simulated card, looks on, and keeps what it prints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from torchferry.acceptance.acceptfile import RunCommand
from torchferry.core.command import run_logged
from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.core.temporary import temporary_folder
from torchferry.core.torch_start import SITE as TORCH_SITE
from torchferry.core.torch_start import noting, python_without_torch
from torchferry.numerics.framework import launcher
from torchferry.numerics.framework.launcher import ToolSettings
from torchferry.rehearsal import site
from torchferry.rehearsal.aggregate import Aggregate, collect
from torchferry.rehearsal.config import VARIABLE, Rehearsal

_WATCH = "torchferry.acceptance.watch:begin"

LARGEST_LOG = 1 << 30
"""Bytes of what a run prints that are kept; the rest is dropped, and the run's record says so."""

SAMPLE_STEP, SAMPLE_SECONDS, SAMPLE_DEVICE, SAMPLE_HOST = range(4)


@dataclass(frozen=True)
class AcceptanceRun:
    """A command that ran.

    Attributes:
        name: `target`, `rehearsal`, `errors`, `soak`, `document-1` ...
        command: Its words.
        folder: Where it ran, relative to the project or as the user may read it.
        where: The folder itself.
        started: When, in UTC.
        seconds: How long.
        code: Its exit code; None where the time limit ended it.
        log: What it printed.
        dropped: Bytes of that which were not kept.
        processes: What `watch` saw, by rank.
        lost: Processes that left nothing.
        aggregate: What the simulated card saw; None where there was none.
        signalled: Whether a signal to us ended it.
        problem: Why it could not be run at all.
        without_torch: The Python of a process that looked for torch and has none.
    """

    name: str
    command: tuple[str, ...]
    folder: str
    where: Path
    started: str
    seconds: float
    code: int | None
    log: Path
    dropped: int = 0
    processes: tuple[dict[str, Any], ...] = ()
    lost: tuple[str, ...] = ()
    aggregate: Aggregate | None = None
    signalled: bool = False
    problem: Message | None = None
    without_torch: str = ""

    @property
    def ended_well(self) -> bool:
        """Whether it ended by itself, with 0."""
        return self.code == 0 and self.problem is None

    @property
    def finished(self) -> bool:
        """Whether all of its processes ended by themselves, with 0: only then its figures are of the whole run."""
        return self.ended_well and not self.lost

    @property
    def stepped(self) -> dict[str, Any] | None:
        """The process that made the most steps; None where none made any."""
        return max(
            (each for each in self.processes if each.get("steps")), key=lambda each: int(each["steps"]), default=None
        )

    @property
    def peak(self) -> int | None:
        """The most bytes that a device held; None where nobody tells."""
        peaks = [int(each["peak"]) for each in self.processes if each.get("peak", -1) >= 0]
        peaks += [peak for peak in (() if self.aggregate is None else self.aggregate.peaks) if peak]
        return max(peaks, default=None)

    def rows(self) -> list[list[float]]:
        """Return the samples of that process."""
        return list((self.stepped or {}).get("samples", ()))

    def step_seconds(self, after: int = 0) -> list[float]:
        """Return the seconds of its steps after the first `after`: the time between two samples, by their steps."""
        rows = [row for row in self.rows() if row[SAMPLE_STEP] >= after]
        return [
            (later[SAMPLE_SECONDS] - row[SAMPLE_SECONDS]) / (later[SAMPLE_STEP] - row[SAMPLE_STEP])
            for row, later in pairwise(rows)
        ]


class _Log:
    """Keeps what a command prints."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._left = LARGEST_LOG
        self.dropped = 0
        self.error: OSError | None = None

    def __call__(self, data: bytes) -> None:
        part = data[: self._left]
        self._left -= len(part)
        self.dropped += len(data) - len(part)
        try:
            self._file.write(part)
            self._file.flush()
        except OSError as error:  # a full disk: the command goes on, and its end says why the run does not count
            self.error = self.error or error

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            self.error = self.error or error


def run(
    name: str,
    command: RunCommand,
    root: Path,
    log: Path,
    rehearsal: Rehearsal | None = None,
    *,
    seconds: float | None = None,
    watched: bool = True,
) -> AcceptanceRun:
    """Run a command.

    Args:
        name: What the run is called.
        command: The command.
        root: The folder that its own folder is relative to.
        log: Where what it prints goes.
        rehearsal: The simulated card; None for this machine's.
        seconds: How long it may take; None: as the command says.
        watched: Whether its steps are looked at.

    Raises:
        OSError: what it printed could not be kept.
    """
    where = root / command.folder
    begun, clock = datetime.now(timezone.utc), time.monotonic()
    with temporary_folder("torchferry-accept-") as temporary:
        session, tool = Path(temporary, "rehearsal"), Path(temporary, "tool")
        environment = {**_environment(session, tool, rehearsal, watched), **noting(temporary)}
        heard = _Log(log)
        problem: Message | None = None
        code: int | None = None
        signalled = False
        try:
            if not where.is_dir() or not where.resolve().is_relative_to(root.resolve()):
                raise UsageError(
                    say("`folder` of the command is not a folder inside the project: `{folder}`", folder=command.folder)
                )
            limit = command.seconds if seconds is None else seconds
            end = run_logged(list(command.words), environment, where, limit, heard)
            code, signalled = end.code, end.signalled
        except UsageError as error:
            problem = error.message
        finally:
            heard.close()
        if heard.error is not None:
            raise heard.error
        outcome = launcher.outcome(-1 if code is None else code, tool) if watched else None
        return AcceptanceRun(
            name,
            command.words,
            command.folder,
            where,
            begun.strftime("%Y-%m-%dT%H:%M:%SZ"),
            time.monotonic() - clock,
            code,
            log,
            heard.dropped,
            () if outcome is None else outcome.results,
            () if outcome is None else outcome.broken,
            None if rehearsal is None else collect(session),
            signalled,
            problem,
            python_without_torch(Path(temporary)),
        )


def _environment(session: Path, tool: Path, rehearsal: Rehearsal | None, watched: bool) -> dict[str, str]:
    """Return the variables of the command, and write what its processes look for."""
    environment = dict(os.environ)
    folders: list[str] = []
    if rehearsal is not None:
        session.mkdir()
        site.fill(session, rehearsal)
        environment[VARIABLE] = str(session)
        folders += site.paths(session, rehearsal)
    if watched:
        tool.mkdir()
        ToolSettings(_WATCH).write(tool)
        environment[launcher.FOLDER] = str(tool)
        folders = [str(launcher.SITE), *folders, *([] if rehearsal is not None else [str(TORCH_SITE)])]
    environment["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [environment.get("PYTHONPATH", "")])])
    environment.setdefault("PYTHONUNBUFFERED", "1")  # or a run that is ended keeps its last lines to itself
    return environment


Teller = Callable[[Message], None]
"""Says something to the user while the stages run."""
