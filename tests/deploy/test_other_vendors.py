"""Deployments of other vendors than the T20's on fake servers, with installers that end and ask as theirs do."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.deploy.lab.flows import Flow, other_flow
from tests.deploy.lab.servers import FILL_WHILE_COPYING, Servers, reason_to_skip
from tests.processes import HANGS

pytestmark = [
    pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DEPLOY") != "1", reason="runs with `make test-deploy`"),
]

DOCKER = (
    "docker ps -a --format '{{.ID}} {{.Names}} {{.State}}'; docker images --format '{{.ID}} {{.Repository}}:{{.Tag}}'"
)


KEPT_BY_THE_SYSTEM = (
    *(f"etc/{name}-" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")),
    "var/lib/apt/extended_states",
)
"""What programs of the system keep of former contents."""


class HostBefore:
    """A host as it was, which a rollback brings back.

    Args:
        flow: The flow.
        host: The host.
    """

    def __init__(self, flow: Flow, host: str) -> None:
        self.flow, self.host = flow, host
        self.files, self.docker = flow.servers.written(host), flow.servers.on(host, DOCKER)

    def is_back(self, left: dict[str, str], *words: str) -> None:
        """Take back what was done, and keep it when it was done again.

        Args:
            left: Steps that the rollback has to name, and how the paths begin that they leave (`|` between several).
            words: What the commands get besides.
        """
        flow, host, step = self.flow, self.host, ""
        status, text = flow("rollback", *words)
        assert status == bool(left), text
        for step in left:
            assert f"{host}: {step} failed" in text, text
        after = flow.servers.written(host)
        paths = [path for path in {*self.files, *after} if self.files.get(path) != after.get(path)]
        own = [part for text in left.values() for part in text.split("|")]
        own += ["var/lib/torchferry/"] if left else []  # what could not be taken back is remembered
        assert [path for path in paths if not path.startswith(tuple(own) + KEPT_BY_THE_SYSTEM)] == []
        assert flow.servers.on(host, DOCKER) == self.docker
        status, text = flow("run", *words)
        assert status == 0, text
        assert flow("commit", *words)[0] == 0
        before = flow.servers.written(host)
        status, text = flow("rollback", *words)
        assert (status, "0 steps taken back" in text) == (0, True), text
        assert flow.servers.written(host) == before, "what was committed stays"
        result = flow.json("verify", *words)
        assert result["ok"], result["failures"]


RESTART = ("torchferry_reboot_command=/lab/restart", "torchferry_boot_time_command='cat /run/boot_id'")


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    servers = Servers(tmp_path_factory.mktemp("other") / "servers", 80)
    try:
        yield servers
    finally:
        servers.close()


def test_npu_installers_end_with_2_and_the_host_restarts(servers: Servers) -> None:
    """Driver, restart, firmware, restart, then CANN, whose licence is asked for, and torch-npu in the container."""
    servers.add("ascend", programs={"/lab/restart": "npu/restart"}, variables=RESTART)
    servers.wait()
    flow = other_flow("npu", servers)
    before = HostBefore(flow, "ascend")
    with servers.restarting("ascend") as restarts:
        status, text = flow("run")
    assert status == 0, text
    assert len(restarts) == 2, "one for the driver, one for the firmware"
    assert "installed successfully" in servers.on("ascend", "cat /var/log/torchferry/npu/firmware.log")
    status, text = flow("run")
    assert status == 0, text
    assert "0 steps changed" in text
    result = flow.json("verify")
    assert result["ok"], result["failures"]
    assert result["hosts"]["ascend"]["steps"]["card-computes"] == "ok"
    assert result["probe"]["cards"] == {"ascend": 8}
    driver = "usr/local/Ascend/|usr/local/bin/npu-smi|etc/ascend_install.info"
    with servers.restarting("ascend"):
        before.is_back({"driver": driver, "firmware": driver})
    # one that ends with neither 0 nor 2 has failed, although what it leaves looks complete
    servers.on("ascend", "rm /usr/local/Ascend/driver/version.info; touch /lab/fail")
    status, text = flow("run", "--only", "driver")
    assert status == 1
    assert "ascend: driver failed" in text, text
    assert "driver ended with 1" in text


def test_sdaa_goes_on_installing_after_its_package_has_returned(servers: Servers) -> None:
    """The package asks for a key, which nobody presses, and returns before the driver is there."""
    servers.add("teco", programs={"/usr/local/sbin/rpm": "sdaa/rpm"})
    servers.wait()
    flow = other_flow("sdaa", servers)
    before = HostBefore(flow, "teco")
    status, text = flow("run")
    assert status == 0, text
    assert "teco  driver: changed" in text
    assert "Press Any Key" in servers.on("teco", "cat /var/log/torchferry/sdaa/driver.log")
    status, text = flow("run")
    assert status == 0, text
    assert "0 steps changed" in text
    result = flow.json("verify")
    assert result["ok"], result["failures"]
    assert result["hosts"]["teco"]["steps"]["card-computes"] == "ok"
    before.is_back({})


def test_gcu_takes_the_framework_of_the_vendors_image(servers: Servers) -> None:
    servers.add("s60", files={"fail": ""})
    servers.wait()
    flow = other_flow("gcu", servers)
    before = HostBefore(flow, "s60")
    status, text = flow("run")
    assert status == 1
    assert "s60: driver failed" in text, text
    assert "linux-headers" in text
    servers.on("s60", "rm /lab/fail")
    status, text = flow("run")
    assert status == 0, text
    status, text = flow("run")
    assert (status, "0 steps changed" in text) == (0, True), text
    result = flow.json("verify")
    assert result["ok"], result["failures"]
    assert result["hosts"]["s60"]["steps"]["card-computes"] == "ok"
    before.is_back({"driver": "var/lib/fakekmod/"})


def test_musa_installs_packages_binds_the_runtime_and_builds(servers: Servers) -> None:
    """Driver and toolkit as packages, Docker's runtime, then torch_musa from source, which fails over left-overs."""
    servers.add("mtt")
    servers.wait()
    packages = servers.on("mtt", "dpkg -l | grep '^ii' | cut -c1-60; getent group")
    flow = other_flow("musa", servers)
    before = HostBefore(flow, "mtt")
    status, text = flow("run")
    assert status == 0, text
    assert "mtt  container-runtime: changed" in text
    assert "left out: build-torch: build_from_source is no" in text
    assert servers.on("mtt", "docker inspect -f '{{.HostConfig.Runtime}}' torch_musa_dev").strip() == "mthreads"
    build = ("--set", "build_from_source=yes")
    servers.on("mtt", "docker exec torch_musa_dev mkdir -p /workspace/build/torch_musa/build")
    status, text = flow("run", *build)
    assert status == 1
    assert "left-overs of an earlier build" in text, text
    assert flow("run", *build, "--set", "build_args=--clean", "--only", "framework")[0] == 0
    status, text = flow("run", *build)
    assert status == 0, text
    assert "mtt  build-torch: changed" in text
    status, text = flow("run", *build)
    assert (status, "0 steps changed" in text) == (0, True), text
    result = flow.json("verify", *build)
    assert result["ok"], result["failures"]
    logs = servers.on("mtt", "docker exec torch_musa_dev cat /var/log/torchferry/musa/build-torch.log")
    assert "built with:" in logs
    before.is_back({"container-runtime": "etc/docker/daemon.json|var/lib/dpkg/"}, *build)
    assert flow("run", *build)[0] == 0
    assert flow("rollback", *build)[0] == 0, "a step that changed nothing has nothing to be taken back"
    assert packages != servers.on("mtt", "dpkg -l | grep '^ii' | cut -c1-60; getent group"), "it was committed"
    servers.on("mtt", "touch /etc/modprobe.d/drivertoolkit.conf")
    status, text = flow("run")
    assert status == 1
    assert "a cluster's own tool manages the driver" in text


PASSWORD = "correct-horse-7531"


def typed_inventory(servers: Servers, *variables: str) -> Path:
    """Write an inventory in which the account has no key and its sudo asks for a password."""
    lines = []
    for line in servers.inventory.read_text(encoding="utf-8").splitlines():
        words = [word for word in line.split(" ") if not word.startswith("ansible_ssh_private_key_file")]
        lines.append(" ".join([*words, *variables] if "ansible_host" in line else words))
    text = "\n".join(lines).replace("ansible_user=ops", "ansible_user=typed")
    text = text.replace("-o LogLevel", "-o PubkeyAuthentication=no -o LogLevel")
    path = servers.folder / "typed.ini"
    path.write_text(text + "\n", encoding="utf-8")
    return path


@contextmanager
def processes_with(text: str) -> Iterator[set[str]]:
    """Look for a text in the words and variables of all processes, while something runs; yields which have it."""
    found: set[str] = set()
    end = threading.Event()

    def look() -> None:
        while not end.wait(0.02):
            for path in (*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")):
                with suppress(OSError):
                    if text.encode() in (data := path.read_bytes()):
                        found.add(f"{path.name}: {data[:300]!r}")

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        end.set()
        thread.join()


def files_with(folder: Path, text: str) -> list[str]:
    done = subprocess.run(["grep", "-rlsF", text, folder], capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_passwords_are_typed_or_in_a_vault_and_written_nowhere(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pexpect = pytest.importorskip("pexpect")

    servers.add("locked", files={"password": PASSWORD}, programs={"/usr/local/sbin/rpm": "sdaa/rpm"})
    servers.wait()
    flow = other_flow("sdaa", servers)
    monkeypatch.setitem(flow.environment, "TMPDIR", str(tmp_path))
    monkeypatch.setitem(flow.environment, "HOME", str(tmp_path))
    servers.inventory = typed_inventory(servers)
    # the log of an installer says the password; no output of ours does
    servers.on("locked", f"sed -i '2i echo sudo: {PASSWORD}; exit 7' /usr/local/sbin/rpm")
    shown = [tmp_path / "events", tmp_path / "page"]
    program, *words = flow.command(
        "run", "--only", "driver", "-k", "-K", "--events", str(shown[0]), "--page", str(shown[1])
    )
    with processes_with(PASSWORD) as leaking:
        terminal = pexpect.spawn(program, words, env=flow.environment, encoding="utf-8", timeout=HANGS)
        for prompt in ("SSH password: ", "sudo password: "):
            terminal.expect_exact(prompt)
            terminal.sendline(PASSWORD)
        terminal.expect(pexpect.EOF)
    assert leaking == set()
    assert all("sudo: ***" in path.read_text(encoding="utf-8") for path in shown)
    said = terminal.before
    terminal.close()
    assert terminal.exitstatus == 1, said
    assert "locked: driver failed" in said, said
    assert "sudo: ***" in said
    assert PASSWORD not in said
    servers.on("locked", "sed -i 2d /usr/local/sbin/rpm; rm -f /var/log/torchferry/sdaa/*")
    # the same with a vault in the inventory
    key = tmp_path / "vault-key"
    key.write_text("the vault's\n", encoding="utf-8")
    vault = ["ansible-vault", "encrypt_string", "--vault-password-file", str(key), "--name", "ansible_password"]
    done = subprocess.run([*vault, PASSWORD], capture_output=True, text=True, check=True)
    folder = servers.folder / "group_vars"
    folder.mkdir()
    both = done.stdout + done.stdout.replace("ansible_password", "ansible_become_password")
    (folder / "all.yml").write_text(both, encoding="utf-8")
    servers.on("locked", FILL_WHILE_COPYING)
    status, text = flow("run", "--only", "image", "--vault-password-file", str(key))
    assert status == 1
    assert "locked: copy-image-tar failed" in text, text
    assert "the disk is full" in text, "what carries a password hides nothing else"
    servers.on("locked", "rm /var/lib/torchferry/filler; umount -l /var/lib/torchferry")
    with processes_with(PASSWORD) as leaking:
        status, text = flow("run", "--only", "driver,image", "--vault-password-file", str(key))
    assert leaking == set()
    assert status == 0, text
    assert "locked  copy-image-tar: " in text
    assert PASSWORD not in text
    status, text = flow("report")
    assert PASSWORD not in text
    assert files_with(tmp_path, PASSWORD) == [], "nothing in temporary folders"
    assert files_with(servers.folder / "state", PASSWORD) == [], "nothing in records"
    assert servers.on("locked", f"grep -rlF {PASSWORD} /var/log /var/lib/torchferry /home; true") == ""
