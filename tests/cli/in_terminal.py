"""Running a command of torchferry on a terminal of its own, and reading what arrives there."""

from __future__ import annotations

import contextlib
import gc
import os
import pty
import select
import signal
import sys
import time
import traceback
from pathlib import Path

SECONDS = 300.0
"""After which a command is killed; it then has no exit code."""


def in_terminal(
    *arguments: str | bytes, cwd: Path, env: dict[str, str] | None = None, piped: bool = False, apart: bool = False
) -> tuple[int | None, bytes, bytes]:
    """Run a command in a fork of this process; return its exit code, what its terminal got and what its pipe got.

    Args:
        arguments: What follows `torchferry`.
        cwd: The folder that it is started in.
        env: Variables beside those of the tests.
        piped: Whether its standard output is a pipe.
        apart: Whether standard error is a pipe too, the same one, so that the terminal gets nothing.
    """
    master, slave = pty.openpty()
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        _become(arguments, cwd, env or {}, writing if piped or apart else slave, writing if apart else slave)
    os.close(slave)
    os.close(writing)
    got = {master: bytearray(), reading: bytearray()}
    left = set(got)
    end = time.monotonic() + SECONDS
    while left and time.monotonic() < end:
        for file in select.select(list(left), [], [], 1.0)[0]:
            try:
                data = os.read(file, 1 << 16)
            except OSError:  # the last process that had the terminal has ended
                data = b""
            got[file] += data
            if not data:
                left.discard(file)
    if left:
        os.kill(process, signal.SIGKILL)
    for file in got:
        os.close(file)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return (None if left else status), bytes(got[master]), bytes(got[reading])


def _become(arguments: tuple[str | bytes, ...], cwd: Path, env: dict[str, str], output: int, errors: int) -> None:
    status = 70
    try:
        gc.freeze()
        os.setsid()
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, errors)):
            os.dup2(file, number)
        os.chdir(cwd)
        os.environ.update(env)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode) for n, mode in enumerate(("r", "w", "w")))
        sys.argv = ["torchferry", *map(os.fsdecode, arguments)]
        from torchferry.cli import main

        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(status)
