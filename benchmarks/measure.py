"""Timing of whole processes: the median of several runs, each on a fresh copy, the two sides in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence


def seconds(command: Sequence[str], prepare: Callable[[], None] | None = None) -> float:
    """Return how long a command runs, its start included; exit codes 0 and 1 both count as done.

    Raises:
        RuntimeError: the command failed.
    """
    if prepare is not None:
        prepare()
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    passed = time.perf_counter() - begin
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return passed


def peak_memory(command: Sequence[str]) -> float:
    """Return the largest memory, in MiB, that the process of a command held at once, as the operating system counts it.

    Raises:
        RuntimeError: the command failed.
    """
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return usage.ru_maxrss / 2**10


def in_turn(runs: int, *sides: Callable[[], float]) -> list[float]:
    """Return the median seconds of each side, measured in turn so that what else the machine does hits all alike."""
    measured: list[list[float]] = [[] for _ in sides]
    for _ in range(runs):
        for side, times in zip(sides, measured, strict=True):
            times.append(side())
    return [statistics.median(times) for times in measured]
