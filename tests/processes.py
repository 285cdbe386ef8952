"""How long a test waits for what would otherwise hang, and programs that are hard to end."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

HANGS = 600.0
"""Seconds after which a test takes it that something hangs: far above what anything takes on a machine under load."""

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    with open(sys.argv[1] + ".part", "w") as file:
        file.write(f"{os.getpid()} {child}")
    os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(300)
"""
"""Ignores SIGTERM, as its child does, and writes both numbers to a file."""


def started(path: Path, starter: subprocess.Popen[bytes]) -> list[int]:
    """Wait until a `STUBBORN` program has written its file; return its processes."""
    end = time.monotonic() + HANGS
    while not path.exists() and time.monotonic() < end and starter.poll() is None:
        time.sleep(0.05)
    return [int(word) for word in path.read_text().split()]


def gone(process: int) -> bool:
    """Whether a process ends before it is taken to hang."""
    end = time.monotonic() + HANGS
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False
