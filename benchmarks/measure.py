"""Timing of whole processes: the median of several runs, each on a fresh copy, the two sides in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


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


class Cost(NamedTuple):
    """What a process cost.

    Attributes:
        seconds: User and system time, its start included.
        memory: The largest resident size in bytes.
        code: Its exit code.
    """

    seconds: float
    memory: int
    code: int

    @property
    def mebibytes(self) -> float:
        """The largest resident size in MiB."""
        return self.memory / 2**20


def cost(command: Sequence[str], output: Path | str = os.devnull, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command with its output in a file, and return what it cost, as the operating system counts it."""
    with open(output, "wb") as file:
        actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), 1), (os.POSIX_SPAWN_DUP2, file.fileno(), 2)]
        process = os.posix_spawnp(command[0], list(command), environment or os.environ, file_actions=actions)
        _, status, usage = os.wait4(process, 0)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))


def successful_cost(command: Sequence[str]) -> Cost:
    """Return what a command cost; exit codes 0 and 1 both count as done.

    Raises:
        RuntimeError: the command failed.
    """
    measured = cost(command)
    if measured.code not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {measured.code}")
    return measured


def in_turn(runs: int, *sides: Callable[[], float]) -> list[float]:
    """Return the median seconds of each side, measured in turn so that what else the machine does hits all alike."""
    measured: list[list[float]] = [[] for _ in sides]
    for _ in range(runs):
        for side, times in zip(sides, measured, strict=True):
            times.append(side())
    return [statistics.median(times) for times in measured]
