"""Files that hosts pass on: who sends to whom, and the whole way over three levels of fake servers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.lab.flows import Flow
from tests.deploy.lab.packages import HERE
from tests.deploy.lab.servers import Servers, reason_to_skip
from torchferry.deploy.bundle import read_bundle, write_bundle
from torchferry.deploy.inventory import PlayOptions
from torchferry.deploy.plan import StepChoice, make_plan
from torchferry.deploy.playbook import tree, write_project


@pytest.mark.parametrize(
    ("count", "width", "levels"), [(33, 8, 2), (72, 8, 2), (73, 8, 3), (1000, 8, 4), (7, 2, 3), (3, 1, 3)]
)
def test_every_host_is_sent_to_once_and_none_sends_to_more_than_the_width(count: int, width: int, levels: int) -> None:
    hosts = [f"h{number}" for number in range(count)]
    places = tree(hosts, width)
    assert list(places) == hosts
    assert max(place.level for place in places.values()) + 1 == levels
    assert sum(not place.parent for place in places.values()) == min(width, count)
    for host, place in places.items():
        below = [child for child, other in places.items() if other.parent == host]
        assert len(below) == place.children <= width
        assert all(places[child].level == place.level + 1 for child in below)
    assert PlayOptions(Path("hosts.ini")).tree_above == 32


def installer_bundle(folder: Path, more: int) -> Path:
    installer = folder / "installer.run"
    installer.write_bytes((HERE / "gcu" / "installer.sh").read_bytes() + b"exit 0\n" + os.urandom(more))
    write_bundle(folder / "bundle", "gcu", {"installer": installer}, {"disk_mb": "100"})
    return folder / "bundle"


def test_a_play_with_a_tree_is_one(tmp_path: Path) -> None:
    program = shutil.which("ansible-playbook")
    if program is None:
        pytest.skip("ansible-playbook is not installed")
    plan = make_plan("gcu", read_bundle(installer_bundle(tmp_path, 10)), {}, StepChoice(only=("driver",)))
    project = tmp_path / "project"
    project.mkdir()
    play = write_project(plan, project, "run", tree(["a", "b {{ 1 }}", "c"], 1))
    command = [program, "--syntax-check", "-i", "localhost,", str(play)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=project)
    assert done.returncode == 0, done.stderr
    assert "b {{ 1 }}" in play.read_text(encoding="utf-8")


@pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DEPLOY") != "1", reason="runs with `make test-deploy`")
def test_files_go_from_host_to_host_and_around_one_that_cannot_pass_them_on(tmp_path: Path) -> None:
    """Seven hosts in three levels; one of the first cannot pass it on, so that what hangs on it is sent from here."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    servers = Servers(tmp_path / "servers", 130)
    try:
        for number in range(7):
            engine = {"/usr/local/sbin/docker": "cluster/docker"}
            servers.add(f"t{number}", "host-bionic" if number == 0 else "host-focal", {"no-docker": ""}, engine)
        servers.wait(docker=False)
        if reason := servers.reason_apart():
            pytest.skip(reason)
        bundle = installer_bundle(tmp_path, 30_000_000)
        flow = Flow(servers, "gcu", bundle, "--only", "driver")
        # another program of this name comes first on the path
        servers.on("t1", "printf '#!/bin/sh\\nexit 1\\n' > /usr/local/bin/python3; chmod 755 /usr/local/bin/python3")
        status, text = flow("run", "--tree-above", "6", "--tree-width", "2")
        assert status == 0, text
        sent = {name: servers.sent(name) for name in (f"t{number}" for number in range(7))}
        assert all(servers.received(name) > 30_000_000 for name in sent)
        assert {name for name, count in sent.items() if count > 30_000_000} == {"t0", "t2"}, sent
        assert 60_000_000 < sent["t0"] < 65_000_000, "it passed the file on to two"
        for name in sent:
            assert servers.on(name, "pgrep -f 'Offers one file' || true") == "", "no offer stays"
        status, text = flow("run", "--tree-above", "6", "--tree-width", "2")
        assert (status, "0 steps changed" in text) == (0, True), text
    finally:
        servers.close()
