"""What a command is doing and how far it is: one line on standard error, removed when it is done.

It is there for a person who waits: only on a terminal, and only after a second in which nothing was printed. Any part
of torchferry says what it does with `doing` or `counted`; it only counts. A thread draws the line, a few times a
second, so that a loop costs no more than without it, and work that has no loop is seen to go on. The thread never
lives while the process forks, and never beyond the work.

Where `torchferry mcp` started the command, the line goes into a file instead, which is empty while there is no line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TypeVar

from torchferry.core import env, terminal
from torchferry.core.messages import Message, cut, display_width, language, say
from torchferry.core.terminal import CI_SERVICES, is_terminal, visible

Item = TypeVar("Item")

_PATIENCE = 1.0
"""Seconds without anything printed before the line is drawn."""

_INTERVAL = 0.1
"""Seconds between two drawings."""

_LONG = 3.0
"""Seconds of one piece of work from which on they are shown."""

_MEGABYTE = 10**6

_COLUMNS = 80
"""Of a terminal that does not say how many it has."""

_ECHO = 2
"""Columns after the line in which the terminal may have written `^C`."""

_LOGGED = ("CI", *CI_SERVICES)
"""Variables of services whose logs keep all that a terminal gets."""


class Work:
    """A piece of work under way: who does it says how far it is.

    Args:
        title: What is being done: `examining files`.
        total: How many parts it has, or bytes; None where nobody knows.
        in_bytes: Whether bytes are counted.
    """

    __slots__ = ("begun", "done", "in_bytes", "lang", "title", "total")

    def __init__(self, title: Message, total: int | None = None, in_bytes: bool = False) -> None:
        self.title = title
        self.total = total
        self.in_bytes = in_bytes
        self.done = 0
        self.begun = monotonic()
        self.lang = "en"

    def add(self, count: int = 1) -> None:
        """Say that so much more is done."""
        self.done += count

    def reach(self, done: int, total: int | None = None) -> None:
        """Say how much is done, and how much there is where that has changed."""
        self.done = done
        if total is not None:
            self.total = total

    def text(self, now: float) -> str:
        """Return the line, as long as it is."""
        shown = self.title
        unit = _MEGABYTE if self.in_bytes else 1
        total = (self.total or 0) // unit
        if self.done and self.total is None and not self.in_bytes:
            shown = say("{work} {done}", work=shown, done=f"{self.done:,}")
        elif total:
            numbers = {"done": f"{min(self.done // unit, total):,}", "total": f"{total:,}"}
            if self.in_bytes:
                shown = say("{work} {done} of {total} MB", work=shown, **numbers)
            else:
                shown = say("{work} {done} of {total}", work=shown, **numbers)
        seconds = int(now - self.begun)
        if seconds >= _LONG:
            shown = say("{work} ({seconds} s)", work=shown, seconds=seconds)
        return visible(shown.render(self.lang))


@contextmanager
def doing(title: Message, total: int | None = None, *, in_bytes: bool = False) -> Iterator[Work]:
    """Show what is being done in a `with` block; yields what is told how far it is.

    Within another such block, the inner one is shown.

    Args:
        title: What is being done, such as `examining files`.
        total: How many parts it has, or bytes; None where nobody knows.
        in_bytes: Whether bytes are counted.
    """
    work = Work(title, total, in_bytes)
    if not may_be_shown():
        yield work
        return
    work.lang = _chosen_language()
    try:
        _line.begin(work)
        yield work
    finally:
        _line.end(work)


def reading(path: Path) -> contextlib.AbstractContextManager[Work]:
    """Show that a file is being read in a `with` block; what is yielded is told how many bytes of it are."""
    size = None
    with contextlib.suppress(OSError):
        size = path.stat().st_size
    return doing(say("reading {path}", path=path.name), size, in_bytes=True)


def counted(title: Message, items: Iterable[Item]) -> Iterator[Item]:
    """Yield items one after the other, and show how many are done, and of how many where these have a length."""
    with doing(title, len(items) if isinstance(items, Sized) else None) as work:
        for item in items:
            yield item
            work.add()


@contextmanager
def left_to_others() -> Iterator[None]:
    """Show nothing in a `with` block: a program of the user's has the terminal."""
    _line.hide()
    try:
        yield
    finally:
        _line.show()


def never_shown() -> None:
    """Show nothing from now on: this process answers another program."""
    _line.is_off = True


def removed() -> None:
    """Remove the line, where an error has left it."""
    _line.make_way()


def speak(chosen: Callable[[], str]) -> None:
    """Set what says the language of the line."""
    global _chosen_language  # noqa: PLW0603 - a process has one command line
    _chosen_language = chosen


def may_be_shown() -> bool:
    """Whether somebody may be looking: who started us, or a terminal's user where no service keeps what it gets."""
    if _line.is_off or threading.current_thread() is not threading.main_thread():
        return False
    return env.progress_file() is not None or (
        is_terminal(sys.stderr)
        and os.environ.get("TERM") != "dumb"
        and not any(os.environ.get(name, "") not in ("", "0", "false") for name in _LOGGED)
    )


class _Line:
    """The line, and the thread that draws it."""

    def __init__(self) -> None:
        self.is_off = False
        self._works: list[Work] = []
        self._hidden = 0
        self._text, self._width = "", 0
        self._quiet_since = monotonic()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._end = threading.Event()
        self._registered = False

    def begin(self, work: Work) -> None:
        """Show a piece of work in place of the one around it."""
        if not self._registered:
            self._registered = True
            terminal.before_printing = self.make_way
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(before=self._stop, after_in_parent=self._start, after_in_child=self._forget)
        self._works.append(work)
        self._start()

    def end(self, work: Work) -> None:
        """Show the work around a piece again; nothing where there is none."""
        with contextlib.suppress(ValueError):  # of the parent's, in a fork
            self._works.remove(work)
        if not self._works:
            try:
                self._stop()
            finally:  # Ctrl-C may come here, too
                self._erase()

    def hide(self) -> None:
        """Show nothing until `show`."""
        self._hidden += 1
        self._erase()

    def show(self) -> None:
        """Show the work again that is under way."""
        self._hidden -= 1
        self._quiet_since = monotonic()

    def make_way(self) -> None:
        """Remove the line for what is about to be printed, and wait with the next one."""
        self._erase()
        self._quiet_since = monotonic()

    def draw(self) -> None:
        """Draw the line as it is to be now."""
        with self._lock:
            now = monotonic()
            if not self._works or self._hidden or now - self._quiet_since < _PATIENCE:
                return
            text = self._works[-1].text(now)
            file = env.progress_file()
            if file is not None:
                if text != self._text and _write_file(file, text):
                    self._text, self._width = text, 1
                return
            text = cut(text, _columns() - 1)
            width = display_width(text)
            if text != self._text and _write(f"\r{text}{' ' * (self._width - width)}"):
                self._text, self._width = text, width

    def _erase(self) -> None:
        with self._lock:
            file = env.progress_file()
            if self._width and file is not None:
                _write_file(file, "")
                self._text, self._width = "", 0
            elif self._width:
                blank = min(self._width + _ECHO, _columns() - 1)
                _write(f"\r{' ' * blank}\r")
                self._text, self._width = "", 0

    def _start(self) -> None:
        if self._works and self._thread is None:
            self._end.clear()
            self._thread = threading.Thread(target=self._draw_again, name="torchferry-progress", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads are allowed
                self._thread = None

    def _draw_again(self) -> None:
        while not self._end.wait(_INTERVAL):
            self.draw()

    def _stop(self) -> None:
        if self._thread is not None:
            self._end.set()
            self._thread.join()
            self._thread = None

    def _forget(self) -> None:
        """Show nothing in a fork: the line is its parent's."""
        self.is_off = self.is_off or bool(self._works)
        self._works, self._text, self._width, self._thread = [], "", 0, None
        self._lock = threading.RLock()


def _columns() -> int:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    return _COLUMNS


def _write(text: str) -> bool:
    """Write to the terminal, in one piece; returns whether it could be, and is ours to write to."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = sys.stderr.fileno()
        if _is_in_background(number):
            return False
        os.write(number, text.encode(sys.stderr.encoding or "ascii", "replace"))
        return True
    return False


def _write_file(file: Path, text: str) -> bool:
    """Write the line into the file of who started us, which may have gone; returns whether it could be."""
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0))
        try:
            os.write(descriptor, text.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
        return True
    return False


def _is_in_background(number: int) -> bool:
    """Whether another job has the terminal, as after `&`."""
    try:
        return os.tcgetpgrp(number) != os.getpgrp()
    except (OSError, AttributeError):  # it is no terminal that controls us; a system without jobs
        return False


_line = _Line()
_chosen_language: Callable[[], str] = language
