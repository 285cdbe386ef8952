"""What happens on the simulated card, counted by the line of the user's code that caused it.

Events come from the C++ device (through `receive`) and from the Python side of the plugin (through `record`). Each
process keeps its own and writes them into the session's folder: a line when something is seen for the first time, so
that a crash loses no finding, and everything with its counts when the process ends.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import re
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from types import FrameType
from typing import NamedTuple, TypeVar

from torchferry.core.notebook_cells import cell_name
from torchferry.core.ownwork import is_own
from torchferry.core.secrets import masked_command
from torchferry.core.userlines import NOWHERE, UserLine, UserLines
from torchferry.rehearsal.event_kinds import DTYPES, FAILS_ON_CARD, NATIVE, RAISED_AS
from torchferry.rehearsal.handlers import UNCAUGHT, Caught, CodeOwner, CodeOwners, Handler, handler_of


class EventKey(NamedTuple):
    """What makes two events the same.

    Attributes:
        kind: One of `event_kinds.KINDS`.
        subject: What it is about.
        detail: More about it.
        place: The user's line.
        handler: Who catches what is raised there.
        earlier: The line of what it should have waited for, of a race.
    """

    kind: str
    subject: str
    detail: str
    place: UserLine
    handler: Handler = UNCAUGHT
    earlier: UserLine = NOWHERE


class Count(NamedTuple):
    """How often, and how much in all (bytes, for copies)."""

    times: int
    amount: int


_LONGEST_TEXT = 2000
"""Characters that are kept of what the exception says that ended a process."""


class EventRecorder:
    """The events of one process."""

    def __init__(self) -> None:
        self._counts: dict[EventKey, list[int]] = {}
        self._lock = threading.Lock()
        self._lines = UserLines()
        self._platform: tuple[str, ...] = ()
        self._owners = CodeOwners(_platform())
        self._folder: Path | None = None
        self._is_child = False
        self._device = ""
        self._at_end: list[Callable[[], dict[str, object]]] = []

    def write_into(self, folder: Path) -> None:
        """Keep the events of this process, and of its children, in `folder`."""
        if self._folder is None:
            atexit.register(self.write)
            os.register_at_fork(after_in_child=self._forked)
            # multiprocessing's children end without atexit, and forget finalizers that were made before they start
            register_after_fork(self, lambda recorder: Finalize(None, recorder.write, exitpriority=0))
        self._folder = folder
        self._lines.add_library(str(folder))  # what stands in front of the plugin
        self._own_owners(str(folder))

    def _own_owners(self, *folders: str) -> None:
        self._platform = (*self._platform, *(folder.rstrip(os.sep) + os.sep for folder in folders))
        self._owners = CodeOwners((*_platform(), *self._platform))

    def at_end(self, more: Callable[[], dict[str, object]]) -> None:
        """Add what `more` returns to what is written when the process ends."""
        self._at_end.append(more)

    def add(
        self,
        kind: str,
        subject: str,
        detail: str = "",
        amount: int = 1,
        place: UserLine | None = None,
        error: type[BaseException] | None = None,
        above: FrameType | None = None,
        earlier: UserLine = NOWHERE,
    ) -> None:
        """Count an event for `place`, or for the user's line that is being executed in this thread.

        Args:
            kind: One of `event_kinds.KINDS`.
            subject: What it is about.
            detail: More about it.
            amount: How much, as `Count` has it.
            place: The line; None for the one that is being executed.
            error: The class of the exception that is raised next; None for that of the kind, if it has one.
            above: The frame from which on its handlers are looked for; None for the caller's.
            earlier: The line of what it should have waited for.
        """
        frame = above or sys._getframe(1)
        raised = error or _raised_as(kind, detail)
        handler = UNCAUGHT if raised is None or place is not None else self._handler(frame, raised)
        if handler.caught is Caught.INSIDE:
            if kind == "refused":
                return
            handler = UNCAUGHT
        place = place or (_line_of_scaler(frame) if kind == "noted-dtype" else None) or self._lines.of(frame)
        key = EventKey(kind, subject, detail, place, handler, earlier)
        with self._lock:
            count = self._counts.get(key)
            if count is not None:
                count[0] += 1
                count[1] += amount
                return
            self._counts[key] = [1, amount]
        self._append(_row(key, 1, amount))

    def watch_device(self, name: str) -> None:
        """Say how the device is written, to know torch's words of it."""
        self._device = name

    def is_platform(self, folder: str) -> None:
        """Say where the plugin lies: what it catches or calls by itself is no matter of the program's."""
        self._lines.add_library(folder)
        self._own_owners(folder)

    def _handler(self, frame: FrameType, error: type[BaseException]) -> Handler:
        try:
            return handler_of(frame, error, self._owners)
        except RecursionError:  # the program itself is as deep as that
            return UNCAUGHT

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
        error = getattr(sys, "last_value", None)  # Python sets it before it prints what nobody caught
        ending: set[UserLine] = set()
        if isinstance(error, BaseException):
            document["error"] = self._uncaught(error)
            ending = set(_places(error))
            self._add_unseen(error, ending)
        document["events"] = [
            _row(key if key.place not in ending else key._replace(handler=UNCAUGHT), count.times, count.amount)
            for key, count in self.counts().items()
        ]
        path = self._folder / f"process-{os.getpid()}.json"
        partial = path.with_suffix(".partial")
        try:
            partial.write_text(json.dumps(document), encoding="utf-8")
            partial.replace(path)
        except OSError:
            # the command has taken the folder away or filled the disk; its own end must not change for that
            return

    def _add_unseen(self, error: BaseException, places: set[UserLine]) -> None:
        """Count what ended the process and was seen nowhere: torch's Python refused, or a name was computed."""
        with self._lock:
            if any(key.place in places and key.kind in FAILS_ON_CARD for key in self._counts):
                return
        passed = [*_passed(error)]
        place = self._innermost(passed)
        if any(each.__module__ == "torch._dynamo.exc" for each in type(error).__mro__):
            return  # dynamo says what it cannot trace: that is so on any device, and its words quote the program's
        lacking = getattr(error, "obj", None) if isinstance(error, AttributeError) else None
        if getattr(type(lacking), "is_of_plugin", False):
            self.add("missing-api", f"{getattr(lacking, '__name__', '')}.{error.name}", place=place)  # type: ignore
        elif (
            place is not NOWHERE
            and self._device
            and self._owners(passed[-1].file) in (CodeOwner.PLATFORM, CodeOwner.OWN)
        ):
            if re.search(rf"(?<![\w/\\.-]){self._device}(?![\w/\\-]|\.\w)", str(error), re.IGNORECASE):
                self.add("refused", _words(str(error)), "torch", place=place)

    def _innermost(self, passed: Iterable[UserLine]) -> UserLine:
        """Return the innermost of some lines that is the user's own, the outermost of them being the first."""
        return next((each for each in reversed([*passed]) if not self._lines.in_library(each.file)), NOWHERE)

    def _uncaught(self, error: BaseException) -> dict[str, object]:
        place = self._innermost(_passed(error))
        module = str(error.name or "") if isinstance(error, ModuleNotFoundError) else ""
        try:
            text = str(error)[:_LONGEST_TEXT]
        except Exception:  # of a class of the program's; its own end must not change for that
            text = ""
        return {"name": type(error).__name__, "file": place.file, "line": place.line, "module": module, "text": text}

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
        "caught": _CAUGHT.get(key.handler.caught, ""),
        "handler_file": cell_name(key.handler.file),
        "handler_line": key.handler.line,
        "earlier_file": key.earlier.file,
        "earlier_line": key.earlier.line,
    }


def _passed(error: BaseException) -> Iterator[UserLine]:
    """Yield the lines that an exception passed, the outermost first."""
    trace = error.__traceback__
    while trace is not None:
        yield UserLine(cell_name(trace.tb_frame.f_code.co_filename), trace.tb_lineno)
        trace = trace.tb_next


def _places(error: BaseException | None) -> Iterator[UserLine]:
    """Yield the lines that an exception passed, and those of which it was made."""
    met: set[int] = set()
    todo = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in met or len(met) > _MOST_CAUSES:
            continue
        met.add(id(each))
        yield from _passed(each)
        todo += [each.__cause__, None if each.__suppress_context__ else each.__context__]


_SCALER = os.path.join("amp", "grad_scaler.py")
"""Torch's gradient scaler, and a plugin's: it computes the inverse of its scale in float64 by itself."""


def _line_of_scaler(frame: FrameType | None) -> UserLine | None:
    """Return the line of a gradient scaler that is being executed, within a few calls; None where there is none."""
    for _ in range(_CALLS_OF_SCALER):
        if frame is None:
            return None
        if frame.f_code.co_filename.endswith(_SCALER):
            return UserLine(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


_CALLS_OF_SCALER = 8
"""Between the scaler's line and where an event is counted."""

_MOST_CAUSES = 50

_CAUGHT = {Caught.REPORTED: "reported", Caught.HANDLED: "handled"}


def _raised_as(kind: str, detail: str) -> type[BaseException] | None:
    if kind == "out-of-memory":
        found: type[BaseException] = getattr(sys.modules.get("torch"), "OutOfMemoryError", RuntimeError)
        return found
    if kind == "missing-dtype" and detail:  # a collective refuses it, not the tensor
        return RuntimeError
    return RAISED_AS.get(kind)


def _platform() -> tuple[str, ...]:
    """Return the folders of Python's own library, and of torch where it is installed elsewhere."""
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"]}
    if "torch" in sys.modules:
        folders.add(str(Path(str(sys.modules["torch"].__file__)).parent))
    return tuple(sorted(folder.rstrip(os.sep) + os.sep for folder in folders))


recorder = EventRecorder()
"""The events of this process."""


def record(kind: str, subject: str, detail: str = "", error: type[BaseException] | None = None) -> None:
    """Count an event of the Python side for the user's line; `error` is the class of what is raised next."""
    recorder.add(kind, subject, detail, error=error)


def refused(text: str, error: type[BaseException], by: str) -> None:
    """Count what the plugin refuses, or torch on its device's behalf, in its own words.

    Args:
        text: The words.
        error: The class of the exception.
        by: `plugin` or `torch`.
    """
    _last.words = _words(text)
    name = _not_simulated(text)
    if name:
        recorder.add("not-rehearsed", name, error=error)
        return
    recorder.add("refused", _last.words or error.__name__, "" if by == "plugin" else by, error=error)


def watch_not_simulated(names: Callable[[], Iterable[str]]) -> None:
    """Say which functions of the driver the plugin has called that are not simulated: what it says of those is ours."""
    global _lacking  # noqa: PLW0603 - a process has one driver
    _lacking = names


def _not_simulated(text: str) -> str:
    """Return the function that an error speaks of, of those that are not simulated; empty where there is none."""
    lowered = text.lower()
    return next((name for name in _lacking() if name.lower() in lowered), "")


_lacking: Callable[[], Iterable[str]] = tuple


def is_told_in_other_words(frame: FrameType) -> bool:
    """Whether what a frame raises is a refusal that was told, and that it has caught: it only says it otherwise."""
    handled = sys.exc_info()[1]
    trace = handled.__traceback__ if handled is not None else None
    caught_here = trace is not None and trace.tb_frame is frame
    return caught_here and getattr(_last, "words", None) == _words(str(handled))


E = TypeVar("E", bound=BaseException)


def refusal(error: E) -> E:
    """Count an exception that the simulated plugin is about to raise, and return it."""
    refused(str(error), type(error), "plugin")
    return error


_last = threading.local()


_LONGEST = 200
_SOURCE = re.compile(r"^\w+:\S+\.(?:cpp|cc|h):\d+ ")
"""The place in the plugin's own source, in front of its words."""
_PER_CALL = re.compile(r"\[ERROR\] \d{4}-.*|\(PID:\d+.*|0x[0-9a-f]{6,}")
"""What differs from call to call in the words of a plugin: times, processes, addresses."""


def _words(text: str) -> str:
    """Return the first line of an error's text, without what differs from call to call."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return " ".join(_SOURCE.sub("", _PER_CALL.sub("", first)).split())[:_LONGEST]


_FOLDED = frozenset({"synchronisation", "to-device", "to-host", "noted-dtype"})
_folding = threading.local()


@contextmanager
def as_one(kind: str, subject: str) -> Iterator[None]:
    """Count the waits and copies within the block as one event: they are of torch's own making, not the program's.

    The amount is that of the events of this kind within. What the card would refuse is its own event.
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
    if kind_name == "refused":
        error = ctypes.cast(amount, ctypes.py_object).value if amount else RuntimeError
        refused(name, error if isinstance(error, type) else RuntimeError, detail.decode(errors="replace"))
        return
    folded: dict[str, int] | None = getattr(_folding, "amounts", None)
    if folded is not None and kind_name in _FOLDED:
        folded[kind_name] = folded.get(kind_name, 0) + amount
        return
    recorder.add(kind_name, DTYPES.get(name, name), detail.decode(errors="replace"), amount)
