"""Running a tool without a shell, with a limit on time and output; what it started ends with it."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

from torchferry.core import reaper, system
from torchferry.core.tool_environment import tool_environment

LIMIT = 1 << 20
"""Bytes that are read of each stream; a tool that prints more is broken, and nobody reads it."""


@dataclass(frozen=True)
class ProcessResult:
    """How a command ended.

    Attributes:
        status: Its exit status, negative for a signal; None when it did not end by itself or did not start.
        out: Standard output.
        err: Standard error.
        problem: Empty, or `missing`, `denied`, `timeout`, `flood`.
    """

    status: int | None
    out: str = ""
    err: str = ""
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ended with 0."""
        return self.status == 0

    def first_lines(self, count: int = 5) -> tuple[str, ...]:
        """Return the first lines that say something, for a report."""
        lines = [line.rstrip() for line in (self.out + "\n" + self.err).splitlines() if line.strip()]
        return tuple(line[:200] for line in lines[:count])


def run(
    command: tuple[str, ...], timeout: float, environment: Mapping[str, str], cwd: str | None = None
) -> ProcessResult:
    """Run a command for at most `timeout` seconds; then it and all that it started are killed.

    Its variables are cleaned by `tool_environment`.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=tool_environment(environment),
            cwd=cwd,
            start_new_session=True,
        )
    except FileNotFoundError:
        return ProcessResult(None, problem="missing")
    except (PermissionError, OSError) as error:
        return ProcessResult(None, err=str(error), problem="denied")
    taken: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
    try:
        reaper.watch(process.pid)
        problem = _read(process, taken, time.monotonic() + timeout)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            system.signal_group(process.pid, system.KILL)
        status = process.wait()
        reaper.release(process.pid)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
    texts = {name: data.decode("utf-8", "replace") for name, data in taken.items()}
    return ProcessResult(None if problem else status, texts["out"], texts["err"], problem)


def _read(process: subprocess.Popen[bytes], taken: dict[str, bytearray], end: float) -> str:
    """Read both streams until the process has ended; returns the problem, if there is one."""
    with selectors.DefaultSelector() as selector:
        for name in taken:
            stream = process.stdout if name == "out" else process.stderr
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ, name)
        while True:
            seconds_left = end - time.monotonic()
            if not selector.get_map():
                break
            for key, _ in selector.select(min(max(seconds_left, 0), 0.05)):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                taken[key.data] += data
                if len(taken[key.data]) > LIMIT:
                    return "flood"
            if seconds_left <= 0:
                return "timeout"  # what was printed before is read
            if process.poll() is not None and not selector.select(0):
                return ""  # it has ended; a daemon that it left behind may hold the streams open for ever
    try:
        process.wait(max(0.01, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "timeout"
    return ""
