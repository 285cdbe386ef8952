"""A deployment that is killed again and again: after each time the next run goes on, and does nothing twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.deploy.lab.flows import Flow, t20_flow
from tests.deploy.lab.servers import Servers, reason_to_skip
from tests.processes import HANGS

pytestmark = [
    pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DEPLOY") != "1", reason="runs with `make test-deploy`"),
]

HOST = "node"
CONTAINER = "t20_training_env_py38"


VICTIMS = {
    "sent installer": ["controller"],
    "driver": ["host", "controller"],
    "sent image_tar": ["controller", "host"],
    "copy-image-tar": ["controller"],
    "image": ["host", "controller"],
    "container": ["controller"],
    "base": ["container", "controller"],
    "framework": ["container", "controller"],
    "plugin": ["container", "controller"],
    "copy-model": ["controller"],
    "model": ["container", "controller"],
    "sample-packages": ["host", "container", "controller"],
    "copy-wheels": ["controller"],
    "pins": ["container", "controller"],
    "framework-repair": ["container", "controller"],
    "sample": ["container", "controller"],
}
"""What is killed when a step has begun or a file is being sent: once each, one in each run."""


AGAIN = ("container", "framework")
"""What may have to be done again: a killed container is started, and the sample's script takes the framework away."""


@pytest.fixture
def flow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("kills")
    servers = Servers(folder / "servers", 100)
    try:
        servers.add(HOST)
        servers.wait()
        yield t20_flow(servers, folder / "t20")
    finally:
        servers.close()


class KilledRun:
    """A run that is followed while it goes, so that it can be killed at a point."""

    def __init__(self, flow: Flow) -> None:
        self.servers = flow.servers
        self._old = self._marks()
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

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def _marks(self) -> dict[Path, int]:
        """Return the marks that steps and copies leave on the server's disk and in its container, with their times."""
        disk = self.servers.folder / HOST
        places = [place / "var/lib/torchferry/ptex" for place in (disk / "upper", *disk.glob("docker/overlay2/*/diff"))]
        marks = [path for place in places for path in (*place.glob("state/begun.*"), *place.glob("bundle/incoming/*"))]
        return {path: written for path in marks if (written := time_of(path))}

    def new_mark(self, waited_for: Collection[str]) -> str:
        """Wait for a mark that this run leaves; empty where the run ended without one of them."""
        while self.process.poll() is None:
            for path, written in self._marks().items():
                is_sent = path.parent.name == "incoming"
                name = f"sent {path.name.partition('.')[0]}" if is_sent else path.name.removeprefix("begun.")
                if name in waited_for and written != self._old.get(path):
                    return name
            time.sleep(0.02)
        return ""

    def kill(self, victim: str) -> None:
        """Kill the controller, the container or the host, and wait for the run's end."""
        if victim == "controller":
            playbooks = descendants(self.process.pid)
            self.process.send_signal(signal.SIGKILL)
            end = time.monotonic() + HANGS
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
    waiting = {mark: list(victims) for mark, victims in VICTIMS.items()}
    killed: list[str] = []
    while True:
        run = KilledRun(flow)
        mark = run.new_mark([name for name, victims in waiting.items() if victims])
        if mark:
            victim = waiting[mark].pop(0)
            killed.append(f"{victim} at {mark}")
            run.kill(victim)
        run.end()
        twice = [step for step in run.changed() if complete[step] and step not in AGAIN]
        assert twice == [], f"{killed[-1:]}: what was complete was done again\n{''.join(run.lines)}"
        complete.update(run.changed())
        if not mark:
            break
    assert run.process.returncode == 0, "".join(run.lines)
    assert len(killed) >= 20, f"the lab was too fast: {killed}"
    status, text = flow("run")
    assert (status, "0 steps changed" in text) == (0, True), text
    result = flow.json("verify")
    assert result["ok"], result["failures"]
