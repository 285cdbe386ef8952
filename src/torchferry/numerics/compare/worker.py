"""Comparisons in a thread of their own, so that the device does not wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Work that takes memory until it is done."""

    size: int


Work = TypeVar("Work", bound=Sized)


class Worker(Generic[Work]):
    """Does work in the order in which it came, one piece at a time.

    Args:
        do: What is done with a piece. What it raises comes out of `wait`, and of the next `submit`.
        most: Bytes that waiting work may take.
        background: Whether a thread does it; else `submit` does.
    """

    def __init__(self, do: Callable[[Work], None], most: int, background: bool) -> None:
        self._do = do
        self._most = most
        self._background = background
        self._waiting: deque[Work] = deque()
        self._of_parent: deque[Work] = deque()
        self._size = 0
        self._busy = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def submit(self, work: Work, patient: bool) -> bool:
        """Hand in a piece of work.

        Args:
            work: The piece.
            patient: Whether to wait for room; else False is returned where there is none.

        Raises:
            BaseException: what earlier work raised.
        """
        self._raise()
        if not self._background:
            self._do(work)
            return True
        with self._changed:
            while self._size and self._size + work.size > self._most and self._error is None:
                if not patient:
                    return False
                self._changed.wait()
            self._waiting.append(work)
            self._size += work.size
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="torchferry-compare", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return True

    def wait(self) -> None:
        """Return when all that was handed in is done.

        Raises:
            BaseException: what it raised.
        """
        with self._changed:
            while (self._waiting or self._busy) and self._error is None:
                self._changed.wait()
        self._raise()

    def close(self) -> None:
        """End the thread, which must not live when Python ends: it would be stopped inside of torch, and abort all.

        What waits is dropped; work that is handed in later begins another thread.
        """
        with self._changed:
            thread, self._thread = self._thread, None
            self._waiting.clear()
            self._size = 0
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def forget(self) -> None:
        """Do nothing of what waits, in a fork: its thread is its parent's.

        What waits is kept. To free its tensors takes locks of their allocator, which the thread may have held when
        the process forked: nobody gives them back here.
        """
        self._changed = threading.Condition()
        self._of_parent = self._waiting
        self._waiting = deque()
        self._size, self._busy, self._thread = 0, False, None

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and self._thread is threading.current_thread():
                    self._changed.wait()
                if self._thread is not threading.current_thread():
                    return
                work = self._waiting.popleft()
                self._busy = True
            size = work.size
            try:
                self._do(work)
            except BaseException as error:
                with self._changed:
                    self._error = error
            del work  # its tensors go before anybody hears that it is done
            with self._changed:
                self._busy = False
                self._size = max(0, self._size - size)
                self._changed.notify_all()
