"""Records of runs: what each step on each host came to, and how long it took; no address, no account."""

from __future__ import annotations

import errno
import json
import os
import statistics
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_text
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.deploy.playing import STATUSES, HostOutcome, StepOutcome

SCHEMA = 1
_LARGEST = 1 << 26
_YEAR_9999 = 253_370_764_800


class RunRecord(NamedTuple):
    """One run: what was done (`run`, `rollback`, ...), when it began and ended (seconds since 1970), and its hosts."""

    action: str
    target: str
    begun: float
    ended: float
    hosts: Mapping[str, HostOutcome]

    @property
    def ok(self) -> bool:
        """Whether no host failed."""
        return all(host.failed is None for host in self.hosts.values())


def record_file(target: str, inventory: Path) -> Path:
    """Return where the runs of a target on an inventory are recorded: in the user's folder for such things."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    name = "".join(letter if letter.isalnum() else "-" for letter in str(inventory.resolve()))[-80:]
    return Path(base, "torchferry", "deploy", f"{target}{name}.jsonl")


def write_record(path: Path, record: RunRecord) -> None:
    """Append a run to a file of records.

    Raises:
        TorchferryError: the file cannot be written.
    """
    row = {
        "schema": SCHEMA,
        "action": record.action,
        "target": record.target,
        "begun": round(record.begun, 1),
        "ended": round(record.ended, 1),
        "hosts": {
            name: {"steps": [outcome_row(step) for step in host.steps.values()], "changed": list(host.changed)}
            for name, host in record.hosts.items()
        },
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("ab+", buffering=0) as file:  # in one piece: another run may write its own at the same time
            file.seek(max(0, file.tell() - 1))
            cut_off = file.read(1) not in (b"", b"\n")  # a row that did not fit on the disk takes no other with it
            line = f"{chr(10) * cut_off}{json.dumps(row)}\n".encode()
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=path, error=error.strerror)) from None


class EventLog:
    """Appends to a file or pipe what happens, while it does: a line of JSON as a run begins, a step ends, a run ends.

    Args:
        path: The file; None writes nothing.
        action: What is done.
        target: The name of the target.

    Raises:
        TorchferryError: the file cannot be written.
    """

    def __init__(self, path: Path | None, action: str, target: str) -> None:
        self._path, self._file = path, -1
        self._problem: OSError | None = None
        if path is not None:
            try:
                # a pipe that nobody reads is an error, not something to wait for
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
                os.set_blocking(self._file, True)
            except OSError as error:
                self._problem = error
        self._write(event="begin", action=action, target=target)
        self._raise()

    def step(self, outcome: StepOutcome) -> None:
        """Say how a step ended on a host; a file that can no longer be written does not end the run."""
        self._write(event="step", host=outcome.host, **outcome_row(outcome))

    def end(self, hosts: Mapping[str, HostOutcome]) -> None:
        """Say how the run ended on each host.

        Raises:
            TorchferryError: something could not be written.
        """
        self._write(event="end", hosts={name: host.failed is None for name, host in hosts.items()})
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._raise()

    def _write(self, **row: object) -> None:
        if self._file < 0 or self._problem is not None:
            return
        line = json.dumps({"schema": SCHEMA, "time": round(now(), 3), **row}).encode()
        try:
            if os.write(self._file, line + b"\n") <= len(line):
                self._problem = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._problem = error

    def _raise(self) -> None:
        if self._problem is not None:
            raise TorchferryError(
                say("cannot write {path}: {error}", path=self._path, error=self._problem.strerror)
            ) from None


def outcome_row(outcome: StepOutcome) -> dict[str, object]:
    """Return an outcome as it is written in records and events."""
    return {
        "step": outcome.step,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 1),
        "output": outcome.output[-4000:] if outcome.status not in ("ok", "changed") else "",
    }


def read_records(path: Path) -> list[RunRecord]:
    """Read all runs of a file, the oldest first; a line that was cut off is left out.

    Raises:
        UsageError: there is no such file.
    """
    try:
        text = read_text(path, _LARGEST, errors="replace")
    except OSError:
        raise UsageError(
            say("no run is recorded: {path} is missing", path=path), say("`torchferry deploy run` writes it")
        ) from None
    return [record for record in map(_read, text.splitlines()) if record is not None]


def _read(line: str) -> RunRecord | None:
    try:
        row = parsed_json(line)
        hosts = {
            str(name): HostOutcome(
                str(name),
                {step.step: step for step in (_read_step(str(name), data) for data in host["steps"])},
                tuple(map(str, host["changed"])),
            )
            for name, host in row["hosts"].items()
        }
        begun, ended = _amount(row["begun"]), _amount(row["ended"])
        return RunRecord(str(row["action"]), str(row["target"]), begun, ended, hosts)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None


def _read_step(host: str, row: Mapping[str, Any]) -> StepOutcome:
    status = str(row["status"])
    if status not in STATUSES:
        raise ValueError(status)
    return StepOutcome(host, str(row["step"]), status, _amount(row["seconds"]), str(row["output"]))


def _amount(value: object) -> float:
    """Return seconds, of a time or of a duration, that a calendar still has."""
    if not isinstance(value, (int, float)) or not 0 <= value < _YEAR_9999:
        raise ValueError(value)
    return float(value)


def usual_seconds(records: Iterable[RunRecord]) -> dict[str, float]:
    """Return how long each step usually took where it changed something: the median of earlier runs."""
    seconds: dict[str, list[float]] = {}
    for record in records:
        for host in record.hosts.values():
            for step in host.steps.values():
                if step.status == "changed":
                    seconds.setdefault(step.step, []).append(step.seconds)
    return {step: statistics.median(values) for step, values in seconds.items()}


def now() -> float:
    """Return the time that records are written with."""
    return time.time()
