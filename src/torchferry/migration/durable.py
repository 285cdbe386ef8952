"""Make many files and folders durable, several at once: a disk takes requests together nearly as fast as one.

Asked one after the other, the disk is most of what a migration waits for.
"""

from __future__ import annotations

import os
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType

_AT_ONCE = 8
"""Files that are made durable at the same time."""

_MOST_OPEN = 64
"""Files that may wait, open, for their turn; further ones are made durable at once."""


class Durable:
    """Takes open files and folders; at the end of its `with` block all of them are durable, and closed.

    Raises:
        OSError: one could not be made durable, with its path; raised at the end of the block.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[int, Path] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._error: OSError | None = None
        self._given_up = False

    def __enter__(self) -> Durable:
        return self

    def take(self, descriptor: int, path: Path) -> None:
        """Make durable what is open as `descriptor`, which is closed in any case; `path` is for the message."""
        if self._waiting.qsize() >= _MOST_OPEN:
            self._make(descriptor, path)
            return
        self._waiting.put((descriptor, path))
        if len(self._threads) < _AT_ONCE:
            thread = Thread(
                target=self._work, daemon=True
            )  # one that a signal left behind must not keep us from ending
            try:
                thread.start()
            except RuntimeError:  # no more threads are allowed: the end of the block does the rest
                return
            self._threads.append(thread)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._given_up = kind is not None
        try:
            self._rest()
        except BaseException:
            self._given_up = True
            self._rest()
            raise
        finally:
            self._waiting.put(None)
            for thread in self._threads:
                thread.join()
        if self._error is not None and kind is None:
            raise self._error

    def _work(self) -> None:
        while (taken := self._waiting.get()) is not None:
            self._make(*taken)
        # the end is for all: a signal may have come between the start of a thread and the note that it was started
        self._waiting.put(None)

    def _rest(self) -> None:
        """Do what no thread has begun."""
        while True:
            try:
                taken = self._waiting.get_nowait()
            except Empty:
                return
            if taken is not None:
                self._make(*taken)

    def _make(self, descriptor: int, path: Path) -> None:
        try:
            if not self._given_up:
                os.fsync(descriptor)
        except OSError as error:
            self._error = self._error or OSError(error.errno, error.strerror, str(path))
        finally:
            os.close(descriptor)
