"""Tools that hang, print without end, or leave children behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import gone
from torchferry.core import subprocesses
from torchferry.core.subprocesses import LIMIT, run
from torchferry.doctor.host import Host
from torchferry.doctor.probes import live_probe

PROGRAMS = {
    "well": ("print('a'); import sys; print('b', file=sys.stderr)", 0, "", "a\n"),
    "fails": ("import sys; print('x'); sys.exit(3)", 3, "", "x\n"),
    "hangs": ("print('a', flush=True); ready(); time.sleep(600)", None, "timeout", "a\n"),
    "deaf": ("signal.signal(signal.SIGTERM, signal.SIG_IGN); ready(); time.sleep(600)", None, "timeout", ""),
}


READY = "import signal, sys, time\ndef ready(): open(sys.argv[1], 'x').close()\n"


class _Clock:
    """A clock that stands still until something has happened, and then is an hour later, on any machine."""

    def __init__(self, happened: Callable[[], bool]) -> None:
        self._happened = happened
        self._is_asked = False

    def monotonic(self) -> float:
        """Return an hour where it has happened; nothing has when the limit is worked out, however quick the tool is."""
        is_first, self._is_asked = not self._is_asked, True
        return 3600.0 if not is_first and self._happened() else 0.0


@pytest.mark.parametrize("name", PROGRAMS)
def test_how_a_tool_ends(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, status, problem, out = PROGRAMS[name]
    monkeypatch.setattr(subprocesses, "time", _Clock((tmp_path / "ready").exists))
    ran = run((sys.executable, "-c", READY + source, str(tmp_path / "ready")), 600.0, os.environ)
    assert (ran.status, ran.problem, ran.out) == (status, problem, out)


def test_a_tool_that_prints_without_end_is_stopped() -> None:
    ran = run((sys.executable, "-c", "while True: print('x' * 1000)"), 600.0, os.environ)
    assert ran.problem == "flood"
    assert len(ran.out) < LIMIT + 70_000


def test_what_a_tool_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'part')!r}, 'w').write(str(child.pid))\n"
        f"import os; os.rename({str(tmp_path / 'part')!r}, {str(tmp_path / 'pid')!r})\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setattr(subprocesses, "time", _Clock((tmp_path / "pid").exists))
    assert run((sys.executable, "-c", source), 600.0, os.environ).problem == "timeout"
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_daemon_that_holds_the_output_does_not_hold_us() -> None:
    source = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('done')\n"
    )
    ran = run((sys.executable, "-c", source), 300.0, os.environ)  # had it held us, its problem would be the time
    assert (ran.status, ran.problem, ran.out) == (0, "", "done\n")


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
