"""How fake servers are reached: over another host, with a key that changed, or by two runs at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.lab.flows import Flow
from tests.deploy.lab.packages import HERE
from tests.deploy.lab.servers import Servers, reason_to_skip
from tests.processes import HANGS
from torchferry.deploy.bundle import write_bundle

pytestmark = [
    pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DEPLOY") != "1", reason="runs with `make test-deploy`"),
]


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    """Return the installation of a driver on two servers whose container engine is a stand-in."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("reach")
    servers = Servers(folder / "servers", 170)
    try:
        for name in ("gate", "behind"):
            servers.add(name, files={"no-docker": ""}, programs={"/usr/local/sbin/docker": "cluster/docker"})
        servers.wait(docker=False)
        installer = folder / "installer.run"
        installer.write_bytes((HERE / "gcu" / "installer.sh").read_bytes() + b"exit 0\n" + os.urandom(10_000_000))
        write_bundle(folder / "bundle", "gcu", {"installer": installer}, {"disk_mb": "100"})
        yield Flow(servers, "gcu", folder / "bundle", "--only", "driver")
    finally:
        servers.close()


def inventory(flow: Flow, folder: Path, key: Path, arguments: str) -> Flow:
    """Return the flow with an inventory of its own, of the server `behind` alone."""
    path = folder / "own.ini"
    address = flow.servers.address("behind")
    words = f"ansible_host={address} ansible_user=ops ansible_ssh_private_key_file={key}"
    control = "-o ControlPath=none"  # connections that outlive a run have its options
    path.write_text(f"behind {words} ansible_ssh_common_args='{control} {arguments}'\n", encoding="utf-8")
    own = Flow(flow.servers, flow.target, flow.bundle, *flow.arguments)
    own.command = lambda action, *more: [  # type: ignore[method-assign]
        str(path) if word == str(flow.servers.inventory) else word for word in Flow.command(own, action, *more)
    ]
    return own


def test_a_file_is_sent_over_another_host_and_a_changed_key_is_refused(flow: Flow, tmp_path: Path) -> None:
    servers, key, known = flow.servers, flow.servers.folder / "key", tmp_path / "known"
    if reason := servers.reason_apart():
        pytest.skip(reason)
    options = f"-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    jump = f'-o ProxyCommand="ssh {options} -W %h:%p ops@{servers.address("gate")}"'
    own = inventory(flow, tmp_path, key, f"-o UserKnownHostsFile={known} {jump}")
    status, text = own("run")
    assert status == 0, text
    assert "behind  copy-installer: changed" in text
    assert known.exists(), "a host that is met for the first time is remembered"
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    names = {line.split(" ")[0] for line in known.read_text(encoding="utf-8").splitlines()}
    shown = other.with_suffix(".pub").read_text(encoding="utf-8").rpartition(" ")[0]
    known.write_text("".join(f"{name} {shown}\n" for name in names), encoding="utf-8")
    status, text = own("run")
    assert status == 2
    assert "the host shows another key than it did before" in text, text


def test_the_passphrase_of_a_key_is_not_waited_for(flow: Flow, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "phrase", "-f", key], check=True)
    arguments = "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentitiesOnly=yes"
    status, text = inventory(flow, tmp_path, key, arguments)("check")
    assert status == 2
    assert "refused this account" in text, text


def test_two_runs_at_once_install_once(flow: Flow) -> None:
    servers = flow.servers
    servers.on("gate", "rm -rf /var/lib/torchferry /var/lib/fakekmod")
    line = ["tbf", "rate", "8mbit", "burst", "32kbit", "latency", "50ms"]
    subprocess.run(["tc", "qdisc", "add", "dev", "tfvgate", "root", *line], check=True)
    runs = [
        subprocess.Popen(
            flow.command("run", "--limit", "gate"),
            env=flow.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    texts = [run.communicate(timeout=HANGS)[0] for run in runs]
    subprocess.run(["tc", "qdisc", "del", "dev", "tfvgate", "root"], check=True)
    assert [run.returncode for run in runs] == [0, 0], "\n".join(texts)
    assert sum("driver: changed" in text for text in texts) == 1, "\n".join(texts)
    assert servers.on("gate", "ls /var/lib/torchferry/gcu/bundle/incoming") == "", "nothing is left of a copy"
