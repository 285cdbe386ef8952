"""What happens on the simulated card, counted by the line of the user's code that caused it.

Events come from the C++ device (through `receive`) and from the Python side of the plugin (through `record`). Each
process keeps its own and writes them into the session's folder: a line when something is seen for the first time, so
that a crash loses no finding, and everything with its counts when the process ends.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from typing import NamedTuple

from torchferry.core.ownwork import is_own
from torchferry.core.secrets import masked_command
from torchferry.core.userlines import UserLine, UserLines
from torchferry.rehearsal.event_kinds import DTYPES, NATIVE


class EventKey(NamedTuple):
    """What makes two events the same."""

    kind: str
    subject: str
    detail: str
    place: UserLine


class Count(NamedTuple):
    """How often, and how much in all (bytes, for copies)."""

    times: int
    amount: int


class EventRecorder:
    """The events of one process."""

    def __init__(self) -> None:
        self._counts: dict[EventKey, list[int]] = {}
        self._lock = threading.Lock()
        self._lines = UserLines()
        self._folder: Path | None = None
        self._is_child = False
        self._at_end: list[Callable[[], dict[str, object]]] = []

    def write_into(self, folder: Path) -> None:
        """Keep the events of this process, and of its children, in `folder`."""
        if self._folder is None:
            atexit.register(self.write)
            os.register_at_fork(after_in_child=self._forked)
            # multiprocessing's children end without atexit, and forget finalizers that were made before they start
            register_after_fork(self, lambda recorder: Finalize(None, recorder.write, exitpriority=0))
        self._folder = folder

    def at_end(self, more: Callable[[], dict[str, object]]) -> None:
        """Add what `more` returns to what is written when the process ends."""
        self._at_end.append(more)

    def add(self, kind: str, subject: str, detail: str = "", amount: int = 1, place: UserLine | None = None) -> None:
        """Count an event for `place`, or for the user's line that is being executed in this thread."""
        key = EventKey(kind, subject, detail, place or self._lines.of(sys._getframe(1)))
        with self._lock:
            count = self._counts.get(key)
            if count is not None:
                count[0] += 1
                count[1] += amount
                return
            self._counts[key] = [1, amount]
        self._append(_row(key, 1, amount))

    @property
    def lines(self) -> UserLines:
        """Which lines are the user's own."""
        return self._lines

    def counts(self) -> dict[EventKey, Count]:
        """Return the events so far."""
        with self._lock:
            return {key: Count(*count) for key, count in self._counts.items()}

    def clear(self) -> None:
        """Forget the events so far."""
        with self._lock:
            self._counts.clear()

    def called_by_user(self, above: int = 0) -> bool:
        """Whether the caller of the caller, or who stands `above` it, is the user's own line."""
        return not self._lines.in_library(sys._getframe(2 + above).f_code.co_filename)

    def write(self) -> None:
        """Write the events with their counts; the process is about to end."""
        if self._folder is None or (self._is_child and not self._counts):
            return
        document: dict[str, object] = {
            "pid": os.getpid(),
            "argv": masked_command(sys.argv[:8]),
            "rank": os.environ.get("RANK", ""),
        }
        for more in self._at_end:
            document.update(more())
        document["events"] = [_row(key, count.times, count.amount) for key, count in self.counts().items()]
        path = self._folder / f"process-{os.getpid()}.json"
        partial = path.with_suffix(".partial")
        try:
            partial.write_text(json.dumps(document), encoding="utf-8")
            partial.replace(path)
        except OSError:
            # the command has taken the folder away or filled the disk; its own end must not change for that
            return

    def device_loaded(self) -> None:
        """Note, against a crash, that the simulated plugin is in this process."""
        self._append({"device": True})

    def _append(self, row: dict[str, object]) -> None:
        if self._folder is None:
            return
        line = json.dumps(row) + "\n"
        try:
            with open(self._folder / f"first-{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
                file.write(line)
        except OSError:
            return

    def _forked(self) -> None:
        """In a child: its own events only."""
        self._counts = {}
        self._lock = threading.Lock()
        self._is_child = True


def _row(key: EventKey, times: int, amount: int) -> dict[str, object]:
    return {
        "kind": key.kind,
        "subject": key.subject,
        "detail": key.detail,
        "file": key.place.file,
        "line": key.place.line,
        "times": times,
        "amount": amount,
    }


recorder = EventRecorder()
"""The events of this process."""


def record(kind: str, subject: str, detail: str = "") -> None:
    """Count an event of the Python side for the user's line."""
    recorder.add(kind, subject, detail)


_FOLDED = frozenset({"synchronisation", "to-device", "to-host", "noted-dtype"})
_folding = threading.local()


@contextmanager
def as_one(kind: str, subject: str) -> Iterator[None]:
    """Count the waits and copies within the block as one event: they are of torch's own making, not the program's.

    The amount is that of the events of this kind within. What the card would refuse is an event of its own.
    """
    if getattr(_folding, "amounts", None) is not None:
        yield
        return
    amounts: dict[str, int] = {}
    _folding.amounts = amounts
    try:
        yield
    finally:
        _folding.amounts = None
        if amounts.keys() - {"noted-dtype"}:
            recorder.add(kind, subject, amount=amounts.get(kind, 1))


def receive(kind: int, subject: bytes, detail: bytes, amount: int) -> None:
    """Count an event of the C++ device; called from any thread. A tool's own waits and copies are not the program's."""
    kind_name = NATIVE.get(kind, "?")
    if is_own() and kind_name in _FOLDED:
        return
    name = subject.decode(errors="replace")
    folded: dict[str, int] | None = getattr(_folding, "amounts", None)
    if folded is not None and kind_name in _FOLDED:
        folded[kind_name] = folded.get(kind_name, 0) + amount
        return
    recorder.add(kind_name, DTYPES.get(name, name), detail.decode(errors="replace"), amount)
