"""A process beside ours that ends what we started when we are gone, however we were ended.

What we run is in its own session, and a signal to us is passed on to it. After SIGKILL nothing of ours is left
to do that. The reaper reads a pipe whose other end only we have: `+4711` for each process that we start, `-4711` for
each that has ended. The system closes our end in any case; the reaper then ends what is left, and itself.

This file is its program too, so it imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

SECONDS = 3.0
"""What a process gets between SIGTERM and SIGKILL."""


class _Reaper:
    """The reaper of this process, started when there is something to watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def watch(self, process: int) -> None:
        with self._lock:
            if self._owner != os.getpid():  # never started, or we were forked from a process that has its own
                self._watched.clear()
                self._process = None
            self._watched.add(process)
            self._tell(f"+{process}\n")

    def release(self, process: int) -> None:
        with self._lock:
            if process in self._watched:
                self._watched.discard(process)
                self._tell(f"-{process}\n")

    def _tell(self, line: str) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # somebody has killed it
                os.write(self._process.stdin.fileno(), line.encode())
                return
            self._process.wait()
        self._owner = os.getpid()
        from torchferry.core import own_python  # not there for this file as a program

        self._process = subprocess.Popen(
            own_python.bare_command(__file__),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), "".join(f"+{each}\n" for each in self._watched).encode())


_ours = _Reaper()


def watch(process: int) -> None:
    """End a process, and its group where it leads one, when we are gone; any thread may call this."""
    _ours.watch(process)


def release(process: int) -> None:
    """Leave a process alone, which has ended; any thread may call this."""
    _ours.release(process)


def _main() -> None:
    """Be the reaper: read to the end of the pipe, then end what is watched."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(
                getattr(signal, name), signal.SIG_IGN
            )  # who ends us by our name ends the reaper too, and it has work to do then
    left: set[int] = set()
    for line in sys.stdin:
        (left.add if line.startswith("+") else left.discard)(int(line[1:]))
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        for process in left:
            _send(process, number)
        end = time.monotonic() + SECONDS
        while (left := {process for process in left if _send(process, 0)}) and time.monotonic() < end:
            time.sleep(0.02)


def _send(process: int, number: int) -> bool:
    """Send a signal to the group that a process leads, or to it alone; return whether there was somebody to get it."""
    if os.name == "nt":  # where signal 0 is Ctrl-C, and any other ends the process at once
        with contextlib.suppress(OSError):
            if number:
                os.kill(process, number)
        return False
    for there in (-process, process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(there, number)
            return True
    return False


if __name__ == "__main__":
    _main()
