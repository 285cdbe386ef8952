"""Running a command of the user's: signals reach it, except those that we were started to ignore."""

from __future__ import annotations

import subprocess
import sys
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

RUN = """
import os, signal, sys
from torchferry.core.command import run
for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN if number.name in sys.argv[2:] else signal.SIG_DFL)
sys.exit(run([sys.executable, "-c", sys.argv[1]], dict(os.environ)))
"""
# prints a line for each signal, as launchers have handlers of their own, and ends with SIGTERM
PROGRAM = """
import signal, sys
def told(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(7)
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, told)
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.mark.parametrize("ignored", [(), (SIGINT,), (SIGHUP, SIGINT)], ids=str)
def test_signals_reach_the_command_unless_we_were_started_to_ignore_them(ignored: tuple[Signals, ...]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, PROGRAM, *(number.name for number in ignored)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for number in (SIGINT, SIGHUP, SIGTERM):
        process.send_signal(number)
        if number not in ignored:
            assert process.stdout.readline() == f"{number.name}\n"
    assert process.wait(timeout=60) == 7
    process.stdout.close()
