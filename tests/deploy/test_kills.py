"""A deployment that is killed again and again: after each time the next run goes on, and does nothing twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.lab.flows import Flow, t20_flow
from tests.deploy.lab.servers import Servers, reason_to_skip

pytestmark = [
    pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DEPLOY") != "1", reason="runs with `make test-deploy`"),
]

HOST = "node"
CONTAINER = "t20_training_env_py38"


class KillPoint(NamedTuple):
    """What is killed, and when: a step has `begun`, a file is being `sent`, a step is `done`, the run has `started`."""

    victim: str
    moment: str
    name: str = ""


POINTS = (
    KillPoint("controller", "started"),
    KillPoint("controller", "sent", "installer"),
    KillPoint("controller", "begun", "driver"),
    KillPoint("host", "done", "driver"),
    KillPoint("controller", "sent", "image_tar"),
    KillPoint("host", "sent", "image_tar"),
    KillPoint("controller", "begun", "image"),
    KillPoint("controller", "begun", "container"),
    KillPoint("container", "begun", "base"),
    KillPoint("controller", "begun", "base"),
    KillPoint("container", "begun", "framework"),
    KillPoint("controller", "begun", "framework"),
    KillPoint("container", "begun", "plugin"),
    KillPoint("controller", "begun", "model"),
    KillPoint("host", "begun", "sample-packages"),
    KillPoint("controller", "begun", "sample-packages"),
    KillPoint("container", "begun", "pins"),
    KillPoint("controller", "begun", "pins"),
    KillPoint("container", "begun", "framework-repair"),
    KillPoint("controller", "begun", "sample"),
)


@pytest.fixture
def flow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("kills")
    servers = Servers(folder / "servers", 100)
    try:
        servers.add(HOST, files={"slow": "1"})
        servers.wait()
        yield t20_flow(servers, folder / "t20")
    finally:
        servers.close()


class KilledRun:
    """A run that is followed while it goes, so that it can be killed at a point."""

    def __init__(self, flow: Flow) -> None:
        self.servers = flow.servers
        self._old = {moment: self._files(moment) for moment in ("begun", "sent")}
        self.process = subprocess.Popen(
            flow.command("run"),
            env=flow.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._begun = time.monotonic()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def _files(self, moment: str) -> dict[Path, int]:
        """Return the marks that steps or copies leave on the server's disk and in its container, with their times."""
        disk = self.servers.folder / HOST
        places = [disk / "upper", *(disk / "docker" / "overlay2").glob("*/diff")]
        pattern = "state/begun.*" if moment == "begun" else "bundle/incoming/*"
        marks = (path for place in places for path in (place / "var" / "lib" / "torchferry" / "ptex").glob(pattern))
        return {path: written for path in marks if (written := time_of(path))}

    def reaches(self, point: KillPoint) -> bool:
        """Wait for a point; False where the run ended before."""
        while self.process.poll() is None:
            if point.moment == "started" and time.monotonic() - self._begun > 3:
                return True
            if point.moment == "done" and any(f"{HOST}  {point.name}: changed" in line for line in self.lines):
                return True
            if point.moment in self._old:
                name = f"begun.{point.name}" if point.moment == "begun" else f"{point.name}."
                for path, written in self._files(point.moment).items():
                    if path.name.startswith(name) and written != self._old[point.moment].get(path):
                        return True
            time.sleep(0.02)
        return False

    def kill(self, victim: str) -> None:
        """Kill the controller, the container or the host, and wait for the run's end."""
        if victim == "controller":
            playbooks = descendants(self.process.pid)
            self.process.send_signal(signal.SIGKILL)
            end = time.monotonic() + 20
            while any(still_runs(each) for each in playbooks):
                assert time.monotonic() < end, f"Ansible goes on without its controller: {playbooks}"
                time.sleep(0.1)
        elif victim == "container":
            self.servers.on(HOST, f"docker kill {CONTAINER}", check=False)
        else:
            self.servers.down(HOST)
            self.servers.up_again(HOST)
        self.end()
        if victim == "host":
            self.servers.wait()

    def end(self) -> None:
        """Wait until the run has ended."""
        self.process.wait()
        self._reader.join()

    def changed(self) -> list[str]:
        """Return the steps that the run reported as changed."""
        return re.findall(rf"^{HOST}  ([\w-]+): changed", "".join(self.lines), re.MULTILINE)


def descendants(pid: int) -> list[tuple[int, str]]:
    """Return the processes below one, with the time when each began, but for what ssh leaves to itself."""
    found: list[tuple[int, str]] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        if "ssh" not in Path(f"/proc/{child}/comm").read_text(encoding="utf-8"):
            found += [(int(child), began(int(child))), *descendants(int(child))]
    return found


def time_of(path: Path) -> int:
    """Return when a file was written; 0 where it is gone."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def began(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]


def still_runs(process: tuple[int, str]) -> bool:
    try:
        return began(process[0]) == process[1]
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_run_that_is_killed_twenty_times_goes_on_and_does_nothing_twice(flow: Flow) -> None:
    complete: Counter[str] = Counter()
    reached: list[KillPoint] = []
    for point in POINTS:
        run = KilledRun(flow)
        if run.reaches(point):
            reached.append(point)
            run.kill(point.victim)
        run.end()
        twice = [step for step in run.changed() if complete[step] and step != "container"]
        assert twice == [], f"{point}: what was complete was done again\n{''.join(run.lines)}"
        complete.update(run.changed())
    missed = [point for point in POINTS if point not in reached]
    assert len(missed) <= 3, f"the lab was too slow or too fast for {missed}"
    run = KilledRun(flow)
    run.end()
    assert run.process.returncode == 0, "".join(run.lines)
    assert [step for step in run.changed() if complete[step] and step != "container"] == []
    status, text = flow("run")
    assert (status, "0 steps changed" in text) == (0, True), text
    result = flow.json("verify")
    assert result["ok"], result["failures"]
