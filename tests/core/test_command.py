"""Running a command of the user's: signals reach it, except those that we were started to ignore; it ends with us."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

from tests.processes import HANGS, STUBBORN, gone, started

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


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 60)[0], "nothing came within a minute"
    return process.stdout.readline()


@pytest.mark.parametrize("ignored", [(), (SIGINT,), (SIGHUP, SIGINT)], ids=str)
def test_signals_reach_the_command_unless_we_were_started_to_ignore_them(ignored: tuple[Signals, ...]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, PROGRAM, *(number.name for number in ignored)], stdout=subprocess.PIPE, text=True
    )
    assert line(process) == "ready\n"
    for number in (SIGINT, SIGHUP, SIGTERM):
        process.send_signal(number)
        if number not in ignored:
            assert line(process) == f"{number.name}\n"
    process.communicate(timeout=HANGS)
    assert process.returncode == 7


KILLED = {
    "in front": "command.run([sys.executable, *sys.argv[1:]], dict(os.environ))",
    "logged": "command.run_logged([sys.executable, *sys.argv[1:]], {}, pathlib.Path(), 300.0, lambda data: None)",
    "a tool": "subprocesses.run((sys.executable, *sys.argv[1:]), 300.0, os.environ)",
    "a compiler": "compiling._run([sys.executable, *sys.argv[1:]], 300.0)",
    "with its second reaper": """
reaper.watch(os.getpid())
reaper._ours._process.kill()
reaper._ours._process.wait()
reaper.release(os.getpid())
command.run([sys.executable, *sys.argv[1:]], dict(os.environ))
""",
}


def test_what_we_run_ends_when_we_are_killed(tmp_path: Path) -> None:
    imports = "import os, pathlib, sys\nfrom torchferry.core import command, reaper, subprocesses\n"
    imports += "from torchferry.kernels.gates import compiling\n"
    runs = {
        how: subprocess.Popen([sys.executable, "-c", imports + code, "-c", STUBBORN, str(tmp_path / how)])
        for how, code in KILLED.items()
    }
    programs = {how: started(tmp_path / how, process) for how, process in runs.items()}
    for process in runs.values():
        process.kill()
        process.wait()
    left = {how: [gone(each) for each in pids] for how, pids in programs.items()}
    assert left == {how: [True, True] for how in KILLED}
