"""What torchferry's layer costs over Ansible alone, a second run that changes nothing, and a copy that was cut off.

    python -m benchmarks.deploying [--hosts 16] [--pairs 10] [--megabytes 512] [--parts 5] [--flows 3]

Needs root and the systems of `make lab-roots`, as `make test-deploy` does. The servers are namespaces of this machine
and their installer is a stand-in, so what is measured is the controller: processor time of all its processes, and bytes
as the server's network interface counts them.

Processor time is user and system time of a control group into which each command is put: every process below it is in
there, also the connections of ssh, which go on in the background and are nobody's children. They are ended after each
command, so that none finds those of the one before it. Both sides of a pair follow each other, and which one begins
alternates; a pair has one ratio, and what is reported is the median of the ratios, with the least and the largest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.measure import cost
from tests.deploy.lab.flows import Flow, t20_flow
from tests.deploy.lab.packages import HERE
from tests.deploy.lab.servers import Servers, reason_to_skip
from torchferry.deploy.bundle import read_bundle, write_bundle
from torchferry.deploy.engine import CONFIGURATION
from torchferry.deploy.plan import StepChoice, make_plan
from torchferry.deploy.playbook import write_project
from torchferry.deploy.yaml_text import Unsafe, yaml_text

STAGE = "driver"
"""What is installed: a file that is copied, an installer, and what is asked before and after them."""

DRIVER = StepChoice(only=(STAGE,))


@contextmanager
def servers(folder: Path, count: int) -> Iterator[Servers]:
    """Start servers whose container engine is a stand-in: the driver needs none."""
    started = Servers(folder, 150)
    try:
        for number in range(count):
            started.add(f"b{number}", files={"no-docker": ""}, programs={"/usr/local/sbin/docker": "cluster/docker"})
        started.wait(docker=False)
        yield started
    finally:
        started.close()


def driver_flow(lab: Servers, folder: Path, bytes_more: int = 0) -> Flow:
    """Return the installation of a driver whose installer has so many bytes behind its script."""
    folder.mkdir()
    installer = folder / "installer.run"
    with installer.open("wb") as file:
        file.write((HERE / "gcu" / "installer.sh").read_bytes() + b"exit 0\n")
        for _ in range(bytes_more >> 20):
            file.write(os.urandom(1 << 20))
    write_bundle(folder / "bundle", "gcu", {"installer": installer}, {"disk_mb": "100"})
    return Flow(lab, "gcu", folder / "bundle", "--only", STAGE)


def written_play(flow: Flow, folder: Path, choice: StepChoice) -> Path:
    """Write what `torchferry deploy run` has Ansible play into a new folder; return the play."""
    folder.mkdir()
    return write_project(make_plan(flow.target, read_bundle(flow.bundle), {}, choice), folder, "run")


def asking_every_step(flow: Flow, folder: Path) -> Path:
    """Write a play that asks each step's check with a task of its own: what the engine does without a survey."""
    written_play(flow, folder, DRIVER)
    plan = make_plan(flow.target, read_bundle(flow.bundle), {}, DRIVER)
    lines = ["- hosts: all", "  become: true", "  gather_facts: false", "  strategy: free", "  tasks:"]
    for planned in plan.planned:
        script = yaml_text(Unsafe(folder / "scripts" / f"{planned.step.id}.sh"))
        lines += [
            f"    - name: {planned.step.id}",
            "      ansible.builtin.command:",
            "        argv: [bash, -s, check]",
            "        stdin: \"{{ lookup('ansible.builtin.file', script) }}\"",
            f"      vars: {{script: {script}}}",
            "      changed_when: false",
            "      check_mode: false",
        ]
    play = folder / "checks.yml"
    play.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copy(CONFIGURATION, folder / "ansible.cfg")
    return play


class RunCost(NamedTuple):
    """What a command cost: processor seconds of all its processes, and the seconds that passed."""

    processor: float
    passed: float


class ControlGroup:
    """A control group that counts the processor time of whatever is started in it."""

    _PLACES = (("/sys/fs/cgroup/cpuacct", "cpuacct.usage"), ("/sys/fs/cgroup", "cpu.stat"))

    def __init__(self) -> None:
        parent, self._counter = next(place for place in self._PLACES if Path(place[0], "cgroup.procs").exists())
        self._folder = Path(parent, f"torchferry-bench-{os.getpid()}")
        self._folder.mkdir(exist_ok=True)

    def seconds(self) -> float:
        """Return what was counted so far."""
        text = (self._folder / self._counter).read_text(encoding="ascii")
        return int(text) / 1e9 if self._counter != "cpu.stat" else int(text.split()[1]) / 1e6

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> RunCost:
        """Run a command, end what it left in the background, and return what all of it cost.

        Raises:
            RuntimeError: the command failed.
        """
        enter = f'echo $$ > {self._folder}/cgroup.procs && exec "$@"'
        before, begun = self.seconds(), time.monotonic()
        done = subprocess.run(
            ["bash", "-c", enter, "run", *command], env=environment, capture_output=True, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
        found = RunCost(self.seconds() - before, time.monotonic() - begun)
        self.empty()
        if done.returncode:
            raise RuntimeError(f"{list(command)[:4]} ended with {done.returncode}: {done.stdout[-2000:]!r}")
        return found

    def empty(self) -> None:
        """End all that is still in the group."""
        for _ in range(100):
            left = (self._folder / "cgroup.procs").read_text(encoding="ascii").split()
            if not left:
                return
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            time.sleep(0.05)

    def close(self) -> None:
        """Remove the group."""
        self.empty()
        self._folder.rmdir()


@contextmanager
def control_group() -> Iterator[ControlGroup]:
    """Make a control group that is removed afterwards."""
    group = ControlGroup()
    try:
        yield group
    finally:
        group.close()


class Side(NamedTuple):
    """One side of a pair: a command, and Ansible's settings where torchferry does not bring them."""

    name: str
    command: Sequence[str]
    project: Path | None = None

    def run(self, group: ControlGroup, flow: Flow) -> RunCost:
        """Run it."""
        config = {"ANSIBLE_CONFIG": str(self.project / "ansible.cfg")} if self.project else {}
        environment = {**flow.environment, **config}
        # an installed torchferry is compiled, as Ansible is; from its sources it would be compiled anew by each run
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return group.run(self.command, environment)


def layer(lab: Servers, folder: Path, hosts: int, pairs: int) -> None:
    """The same play by `torchferry deploy run`, by `ansible-playbook`, and by `ansible-runner`; then a second run.

    `ansible-runner` is the program by which torchferry has Ansible run: what that costs is not torchferry's layer.
    """
    flow = driver_flow(lab, folder / "flow")
    project = written_play(flow, folder / "plain", DRIVER).parent
    ansible = ["ansible-playbook", "-i", str(lab.inventory), "--forks", "25"]
    ours = Side("torchferry", flow.command("run"))
    plain = Side("ansible-playbook", [*ansible, str(project / "site.yml")], project)
    (folder / "runner").mkdir()
    words = ["ansible-runner", "run", str(folder / "runner"), "--quiet", "--project-dir", str(project)]
    words += ["-p", "site.yml", "--inventory", str(lab.inventory), "--forks", "25"]
    runner = Side("ansible-runner", words, project)
    folder_of_checks = asking_every_step(flow, folder / "checks").parent
    asking = Side("--check", [*ansible, "--check", str(folder_of_checks / "checks.yml")], folder_of_checks)
    with control_group() as group:
        Side("compiled now", flow.command("plan")).run(group, flow)
        for peer in (plain, runner):
            rows = [(ours, peer)] * pairs
            compare(f"{hosts} hosts: first run", rows, group, flow, lambda: clean(lab, hosts))
        ours.run(group, flow)
        for peer in (asking, plain):
            compare(f"{hosts} hosts: second run", [(ours, peer)] * max(1, pairs // 2), group, flow)


def whole_flow(folder: Path, pairs: int) -> None:
    """The manual's flow for the T20 from its first step to its last, on a server for each run that has nothing yet.

    A container engine works on the servers, which are of this machine: of the seconds that pass, most are theirs.
    """
    lab = Servers(folder / "lab", 100)
    try:
        for number in range(pairs):
            lab.add(f"ours{number}")
            lab.add(f"plain{number}")
        lab.wait()
        flow = t20_flow(lab, folder / "t20")
        project = written_play(flow, folder / "project", StepChoice()).parent
        plain = ["ansible-playbook", "-i", str(lab.inventory), str(project / "site.yml")]

        rows = [
            (
                Side("torchferry", flow.command("run", "--limit", f"ours{number}")),
                Side("ansible-playbook", [*plain, "--limit", f"plain{number}"], project),
            )
            for number in range(pairs)
        ]
        with control_group() as group:
            compare("the T20's flow on one host", rows, group, flow)
    finally:
        lab.close()


def compare(
    title: str,
    pairs: Sequence[tuple[Side, Side]],
    group: ControlGroup,
    flow: Flow,
    afterwards: Callable[[], None] = lambda: None,
) -> None:
    """Run both sides in turn and print each pair, then what they come to.

    Args:
        title: What is measured.
        pairs: Both sides of each, torchferry's first.
        group: What counts.
        flow: Whose environment they have.
        afterwards: What puts the servers back after each run.
    """
    rows: list[tuple[RunCost, RunCost]] = []
    for number, (ours, peer) in enumerate(pairs):
        costs: dict[str, RunCost] = {}
        for side in (ours, peer) if number % 2 else (peer, ours):
            costs[side.name] = side.run(group, flow)
            afterwards()
        rows.append((costs[ours.name], costs[peer.name]))
        print(f"  {title}: {rows[-1][0]} {rows[-1][1]}", flush=True)
    for what in ("processor", "passed"):
        mine, others = ([float(getattr(row[side], what)) for row in rows] for side in (0, 1))
        ratios = [one / other for one, other in zip(mine, others, strict=True)]
        print(
            f"{title}, {what} seconds: {ours.name} {statistics.median(mine):.2f}, "
            f"{peer.name} {statistics.median(others):.2f}; ratio of {len(pairs)} pairs {statistics.median(ratios):.3f} "
            f"({min(ratios):.3f}-{max(ratios):.3f}), of the sums {sum(mine) / sum(others):.3f}",
            flush=True,
        )


_COUNTED = """
import atexit, os, resource, runpy, sys
def count():
    rows = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    with open(os.environ["COUNTED"], "w") as file:
        print(*(row.ru_utime + row.ru_stime for row in rows), file=file)
atexit.register(count)
sys.argv = sys.argv[1:]
runpy.run_module("torchferry", run_name="__main__", alter_sys=True)
"""
"""Runs torchferry's command line, and writes the processor seconds of its own process and of those below it."""


def parts(lab: Servers, folder: Path, hosts: int, runs: int) -> None:
    """Where a first run spends more than `ansible-playbook` alone does: before, beside and inside of Ansible."""
    flow = driver_flow(lab, folder / "parts")
    project = written_play(flow, folder / "alone", DRIVER).parent
    plain = ["ansible-playbook", "-i", str(lab.inventory), "--forks", "25", str(project / "site.yml")]
    counted = folder / "counted"
    words = [sys.executable, "-c", _COUNTED, "torchferry", *flow.command("run")[3:]]
    rows: list[list[float]] = []
    for _ in range(runs):
        start = cost(flow.command("plan"), environment=flow.environment).seconds
        inventory = cost(
            ["ansible-inventory", "-i", str(lab.inventory), "--list"], environment=flow.environment
        ).seconds
        alone = cost(plain, environment={**flow.environment, "ANSIBLE_CONFIG": str(project / "ansible.cfg")}).seconds
        clean(lab, hosts)
        whole = cost(words, environment={**flow.environment, "COUNTED": str(counted)}).seconds
        clean(lab, hosts)
        own, below = map(float, counted.read_text(encoding="utf-8").split())
        rows.append([whole - alone, start, inventory, own - start, below - inventory - alone])
    names = (
        "in all",
        "start and plan",
        "inventory",
        "events, in torchferry",
        "events, in Ansible, and what the two differ by",
    )
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        print(
            f"{hosts} hosts: {name}: {statistics.median(values):.2f} s ({min(values):.2f}-{max(values):.2f})",
            flush=True,
        )


def clean(lab: Servers, hosts: int) -> None:
    """Take away what a run left on the servers."""
    for host in range(hosts):
        lab.on(f"b{host}", "rm -rf /var/lib/torchferry /var/lib/fakekmod /var/log/torchferry")


def resumed_copy(lab: Servers, folder: Path, megabytes: int) -> None:
    """Cut a copy off by ending the server when half of it is there, and run again."""
    flow = driver_flow(lab, folder / "large", megabytes << 20)
    size = (flow.bundle / "files" / "installer").stat().st_size
    parts = lab.on_disk("b0", "/var/lib/torchferry/gcu/bundle/incoming")
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(0.02):
            if any(path.stat().st_size > size // 2 for path in parts.glob("installer.*")):
                lab.down("b0")
                return

    thread = threading.Thread(target=cut)
    thread.start()
    cost(flow.command("run", "--limit", "b0"), environment=flow.environment)
    stop.set()
    thread.join()
    there = sum(path.stat().st_size for path in parts.glob("installer.*"))
    lab.up_again("b0")
    lab.wait(docker=False)
    before = lab.received("b0")
    with control_group() as group:
        done = group.run(flow.command("run", "--limit", "b0"), flow.environment)
    sent = lab.received("b0") - before
    print(f"{size} bytes, cut off with {there} there: {size - there} lacked, {sent} were received afterwards,")
    print(f"in a run of {done.processor:.1f} s processor, {done.passed:.1f} s passed")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--parts", type=int, default=5)
    parser.add_argument("--flows", type=int, default=3)
    asked = parser.parse_args()
    if reason := reason_to_skip():
        print(f"skipped: {reason}")
        return
    with (
        tempfile.TemporaryDirectory(prefix="torchferry-bench-") as name,
        servers(Path(name, "lab"), asked.hosts) as lab,
    ):
        if asked.pairs:
            layer(lab, Path(name), asked.hosts, asked.pairs)
        if asked.parts:
            parts(lab, Path(name), asked.hosts, asked.parts)
        if asked.megabytes:
            resumed_copy(lab, Path(name), asked.megabytes)
    if asked.flows:
        with tempfile.TemporaryDirectory(prefix="torchferry-bench-") as name:
            whole_flow(Path(name), asked.flows)


if __name__ == "__main__":
    main()
