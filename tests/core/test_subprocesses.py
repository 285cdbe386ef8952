"""Tools that hang, print without end, or leave children behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from torchferry.core.subprocesses import LIMIT, run
from torchferry.doctor.host import Host
from torchferry.doctor.probes import live_probe

PROGRAMS = {
    "well": ("print('a'); import sys; print('b', file=sys.stderr)", 0, "", "a\n"),
    "fails": ("import sys; print('x'); sys.exit(3)", 3, "", "x\n"),
    "hangs": ("print('a', flush=True); import time; time.sleep(60)", None, "timeout", "a\n"),
    "deaf": ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)", None, "timeout", ""),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_how_a_tool_ends(name: str) -> None:
    source, status, problem, out = PROGRAMS[name]
    begun = time.monotonic()
    ran = run((sys.executable, "-c", source), 2.0, os.environ)
    assert (ran.status, ran.problem, ran.out) == (status, problem, out)
    assert time.monotonic() - begun < 10


def test_a_tool_that_prints_without_end_is_stopped() -> None:
    ran = run((sys.executable, "-c", "while True: print('x' * 1000)"), 30.0, os.environ)
    assert ran.problem == "flood"
    assert len(ran.out) < LIMIT + 70_000


def test_what_a_tool_started_ends_with_it(tmp_path: Path) -> None:
    source = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    assert run((sys.executable, "-c", source), 3.0, os.environ).problem == "timeout"
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if (Path(f"/proc/{pid}/stat")).exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child lives on")


def test_a_daemon_that_holds_the_output_does_not_hold_us() -> None:
    source = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('done')\n"
    )
    begun = time.monotonic()
    ran = run((sys.executable, "-c", source), 20.0, os.environ)
    assert (ran.status, ran.out) == (0, "done\n")
    assert time.monotonic() - begun < 10


def test_a_tool_that_is_not_there_or_may_not_be_run(tmp_path: Path) -> None:
    assert run(("no-such-tool-anywhere",), 1.0, os.environ).problem == "missing"
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    assert run((str(tmp_path / "tool"),), 1.0, os.environ).problem == "denied"


def test_who_has_a_file_open(tmp_path: Path) -> None:
    machine, path = Host(), str(tmp_path / "card")
    Path(path).write_text("")
    assert machine.openers([path]) == []
    with Path(path).open():
        (opener,) = machine.openers([path, "/nowhere"])
    assert (opener.pid, opener.paths) == (os.getpid(), (path,))
    assert opener.name not in ("", "?")


def test_ranks_that_do_not_end_are_told_as_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the probe's, and says nothing of the collective; a rank that fails is what the others wait for."""
    waiting = tmp_path / "waiting"
    waiting.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\n[ $RANK = 1 ] && { echo no link >&2; exit 3; }\nexec sleep 60\n", encoding="utf-8")
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(live_probe, "say", lambda **values: said.append(values))
    for program in (waiting, failing):
        program.chmod(0o755)
        monkeypatch.setattr(live_probe, "BEGUN", time.monotonic())
        monkeypatch.setattr(live_probe, "ASKED", {"timeout": live_probe._RESERVE + 0.6})
        monkeypatch.setattr(sys, "executable", str(program))
        live_probe.collective(2)
    slow, wrong = (one for one in said if "step" in one)
    assert slow["error"] == ""
    assert 0 < slow["limit"] <= 0.6
    assert wrong["error"] == "rank 1: exit status 3"
    assert wrong["limit"] == 0
    assert "no link" in wrong["lines"]
