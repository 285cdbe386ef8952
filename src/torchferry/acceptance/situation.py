"""What the stages share: the file, the target, where evidence is gathered, and the runs, each made once."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchferry.acceptance import runs
from torchferry.acceptance.acceptfile import AcceptFile, RunCommand
from torchferry.acceptance.gates import Gate
from torchferry.acceptance.runs import AcceptanceRun
from torchferry.acceptance.units import typed
from torchferry.backends.target import Target
from torchferry.core.errors import UsageError
from torchferry.core.files import open_regular
from torchferry.core.messages import Message, say
from torchferry.core.progress import doing
from torchferry.rehearsal.config import Rehearsal

BASELINE, TARGET, REHEARSAL = "baseline", "target", "rehearsal"


@dataclass
class Situation:
    """One call of `torchferry accept`.

    Attributes:
        file: What is to be kept.
        target: The accelerator.
        rehearsal: The simulated card; None on the card's machine.
        folder: Where evidence is gathered.
        tell: Says what is done.
        ignored: Names of files and folders of ours, which are not the project's.
        reproducing: Whether the baseline's own command is run, to see that its figures come again.
        allow_cpu: Whether a run without an accelerator is judged as one with it.
        soak_seconds: How long the soak is to take; 0 for none.
        soak_state: The file in which the state of a soak outlives an interruption.
        made: The runs that were made, in their order.
        migration: What the migration stage found, for the evidence.
        metrics: What the numbers stage found, for the evidence.
    """

    file: AcceptFile
    target: Target
    rehearsal: Rehearsal | None
    folder: Path
    tell: Callable[[Message], None]
    allow_cpu: bool = False
    soak_seconds: float = 0.0
    soak_state: Path | None = None
    ignored: tuple[str, ...] = ()
    reproducing: bool = False
    made: list[AcceptanceRun] = field(default_factory=list)
    migration: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    _main: AcceptanceRun | None = None
    _earlier: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Which run is judged: `baseline`, `target` or `rehearsal`."""
        if self.reproducing:
            return BASELINE
        return TARGET if self.rehearsal is None else REHEARSAL

    @property
    def command(self) -> RunCommand | None:
        """The command that is judged: on a rehearsal its own, or the target's where none is stated."""
        commands = self.file.runs
        return commands.get(self.kind) or (commands.get(TARGET) if self.kind == REHEARSAL else None)

    @property
    def judged(self) -> AcceptanceRun | None:
        """The run that is judged; None as long as no stage has asked for it."""
        return self._main

    @property
    def title(self) -> Message:
        """What a run is on, for messages."""
        return say("the card") if self.rehearsal is None else say("the simulated card")

    def main(self) -> AcceptanceRun | None:
        """Return the run that is judged, made when it is first asked for; None where the file states no command.

        Raises:
            OSError: what it prints cannot be kept.
        """
        if self._main is None and self.command is not None:
            self._earlier = {name: _begun(self._at(self.command, name)) for name in self._named_logs()}
            self._main = self.run(self.kind, self.command)
        return self._main

    def run(self, name: str, command: RunCommand, root: Path | None = None, **options: Any) -> AcceptanceRun:
        """Run a command, with its log among the evidence; `options` as of `runs.run`.

        Raises:
            KeyboardInterrupt: a signal ended it, and the caller does not say that it is `interruptible`.
            OSError: what it prints cannot be kept.
        """
        options.setdefault("rehearsal", self.rehearsal)
        interruptible = options.pop("interruptible", False)
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        title = say("running {command}", command=typed(command.words))
        self.tell(title)
        with doing(title):
            done = runs.run(name, command, root or self.file.root, logs / f"{name}.log", **options)
        if done.signalled and not interruptible:
            raise KeyboardInterrupt
        self.made = [each for each in self.made if each.name != name] + [done]
        return done

    def log_of(self, run: AcceptanceRun, name: str) -> Path:
        """Return the log that a gate reads: what the run printed, or a file in its folder.

        Of a file that was there before, and to which the run appended, only what is new counts. It is kept among the
        evidence.

        Raises:
            UsageError: it is the baseline's own log.
            OSError: what is new could not be kept.
        """
        if not name:
            return run.log
        log = run.where / name
        baseline = self.file.baseline.log
        if baseline and not self.reproducing and _is_same(log, self.file.root / baseline):
            raise UsageError(say("{path} is the baseline's log; name a log that the run writes", path=name))
        size, digest = self._earlier.get(name, (0, ""))
        if not size or not is_fresh(log, run) or _begun(log, size) != (size, digest):
            return log
        new = self.folder / "logs" / f"{run.name}-{name.replace('/', '-')}"
        new.parent.mkdir(exist_ok=True)
        with open_regular(log) as file, new.open("wb") as kept:
            if log.suffix in (".csv", ".tsv"):
                kept.write(file.readline())  # the names of the columns
            file.seek(size)
            shutil.copyfileobj(file, kept)
        return new

    def _named_logs(self) -> set[str]:
        """Return the logs that gates name, beside what the run prints."""
        terms = (*self.file.baseline.metrics, self.file.curve, self.file.speed, self.file.logs)
        return {each.log for each in terms if each is not None and each.log}

    def _at(self, command: RunCommand, name: str) -> Path:
        return self.file.root / command.folder / name


def _begun(path: Path, size: int | None = None) -> tuple[int, str]:
    """Return the size of a file, or of as much of its beginning, with the digest of that; 0 where it is no file."""
    try:
        with open_regular(path) as file:
            left = os.fstat(file.fileno()).st_size if size is None else size
            whole, digest = left, hashlib.sha256()
            while left and (part := file.read(min(left, 1 << 20))):
                digest.update(part)
                left -= len(part)
    except OSError:
        return 0, ""
    return whole - left, digest.hexdigest()


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


class UnjudgedError(Exception):
    """A stage cannot be judged; the message says why."""

    def __init__(self, reason: Message) -> None:
        super().__init__(reason.render("en"))
        self.reason = reason


def needed_run(situation: Situation) -> AcceptanceRun:
    """Return the run that is judged.

    Raises:
        UnjudgedError: the file states none.
    """
    run = situation.main()
    if run is None:
        raise UnjudgedError(no_command(situation))
    return run


def no_command(situation: Situation) -> Message:
    """Return that the file has no command for the run that is judged."""
    if situation.kind == REHEARSAL:
        return say("the accept file has no command in [runs.rehearsal] or [runs.target]")
    return say("the accept file has no command in [runs.{name}]", name=situation.kind)


def is_fresh(path: Path, run: AcceptanceRun) -> bool:
    """Whether a file was written by a run, and not before it; two seconds allow for the clocks of file systems."""
    from datetime import datetime, timezone

    begun = datetime.strptime(run.started, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    return path.stat().st_mtime >= begun - 2


Stage = Callable[[Situation], "list[Gate]"]
