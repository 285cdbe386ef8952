"""What torchferry's layer costs over Ansible alone, a second run that changes nothing, and a copy that was cut off.

    python -m benchmarks.deploying [--hosts 16] [--runs 5] [--megabytes 512] [--parts 5]

Needs root and the systems of `make lab-roots`, as `make test-deploy` does. The servers are namespaces of this machine
and their installer is a stand-in, so what is measured is the controller: processor time of all its processes, as the
operating system counts it, and bytes as the server's network interface counts them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.measure import Cost, cost
from tests.deploy.lab.flows import Flow
from tests.deploy.lab.packages import HERE
from tests.deploy.lab.servers import Servers, reason_to_skip
from torchferry.deploy.bundle import read_bundle, write_bundle
from torchferry.deploy.engine import CONFIGURATION
from torchferry.deploy.plan import StepChoice, make_plan
from torchferry.deploy.playbook import Unsafe, write_project, yaml_text

STAGE = "driver"
"""What is installed: a file that is copied, an installer, and what is asked before and after them."""


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


def asking_every_step(flow: Flow, folder: Path) -> Path:
    """Write a play that asks each step's check with a task of its own: what the engine does without a survey."""
    plan = make_plan("gcu", read_bundle(flow.bundle), {}, StepChoice(only=(STAGE,)))
    folder.mkdir()
    write_project(plan, folder, "run")
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


def measure(flow: Flow, command: list[str], project: Path | None = None) -> tuple[Cost, float]:
    """Return what a command cost, and how long it ran."""
    environment = {**flow.environment, **({"ANSIBLE_CONFIG": str(project / "ansible.cfg")} if project else {})}
    begun = time.monotonic()
    done = cost(command, environment=environment)
    if done.code:
        raise RuntimeError(f"{command[:4]} ended with {done.code}")
    return done, time.monotonic() - begun


def layer(lab: Servers, folder: Path, hosts: int, runs: int) -> None:
    """The same play by `torchferry deploy run` and by `ansible-playbook`; then the engine's own check of each step."""
    flow = driver_flow(lab, folder / "flow")
    plan = make_plan("gcu", read_bundle(flow.bundle), {}, StepChoice(only=(STAGE,)))
    (folder / "plain").mkdir()
    project = write_project(plan, folder / "plain", "run").parent
    ansible = ["ansible-playbook", "-i", str(lab.inventory), "--forks", "25"]
    plain = [*ansible, str(project / "site.yml")]
    checks = [*ansible, "--check", str(asking_every_step(flow, folder / "checks"))]
    rows: dict[str, list[tuple[Cost, float]]] = {}

    def add(name: str, command: list[str], config: Path | None = None) -> None:
        rows.setdefault(name, []).append(measure(flow, command, config))

    for number in range(max(1, runs // 2)):
        pairs = [("first run, torchferry", flow.command("run"), None), ("first run, ansible-playbook", plain, project)]
        for name, command, config in pairs if number % 2 else reversed(pairs):
            add(name, command, config)
            clean(lab, hosts)
    measure(flow, flow.command("run"))
    for _ in range(runs):
        add("second run, torchferry", flow.command("run"))
        add("second run, ansible-playbook", plain, project)
        add("each step asked by the engine, --check", checks, folder / "checks")
    for name, values in rows.items():
        processor = statistics.median(value.seconds for value, _ in values)
        passed = statistics.median(wall for _, wall in values)
        low, high = min(value.seconds for value, _ in values), max(value.seconds for value, _ in values)
        print(
            f"{hosts} hosts: {name}: {processor:.2f} s processor ({low:.2f}-{high:.2f}), {passed:.1f} s passed",
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
    plan = make_plan("gcu", read_bundle(flow.bundle), {}, StepChoice(only=(STAGE,)))
    (folder / "alone").mkdir()
    project = write_project(plan, folder / "alone", "run").parent
    plain = ["ansible-playbook", "-i", str(lab.inventory), "--forks", "25", str(project / "site.yml")]
    counted = folder / "counted"
    words = [sys.executable, "-c", _COUNTED, "torchferry", *flow.command("run")[3:]]
    rows: list[list[float]] = []
    for _ in range(runs):
        start = measure(flow, flow.command("plan"))[0].seconds
        inventory = measure(flow, ["ansible-inventory", "-i", str(lab.inventory), "--list"])[0].seconds
        alone = measure(flow, plain, project)[0].seconds
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
    done, passed = measure(flow, flow.command("run", "--limit", "b0"))
    sent = lab.received("b0") - before
    print(f"{size} bytes, cut off with {there} there: {size - there} lacked, {sent} were received afterwards,")
    print(f"in a run of {done.seconds:.1f} s processor, {passed:.1f} s passed")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--parts", type=int, default=5)
    asked = parser.parse_args()
    if reason := reason_to_skip():
        print(f"skipped: {reason}")
        return
    with (
        tempfile.TemporaryDirectory(prefix="torchferry-bench-") as name,
        servers(Path(name, "lab"), asked.hosts) as lab,
    ):
        if asked.runs:
            layer(lab, Path(name), asked.hosts, asked.runs)
        if asked.parts:
            parts(lab, Path(name), asked.hosts, asked.parts)
        if asked.megabytes:
            resumed_copy(lab, Path(name), asked.megabytes)


if __name__ == "__main__":
    main()
