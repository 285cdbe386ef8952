"""Fake servers: systems in network namespaces of their own, with sshd and Docker, for `make test-deploy`.

They have no route to anywhere, so that what a step would fetch from a network really fails.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import HANGS

HERE = Path(__file__).parent


FILL_WHILE_COPYING = """
mkdir -p /var/lib/torchferry && cd /var/lib/torchferry && mount -t tmpfs -o size=420m tmpfs . && cd "$PWD" || exit 1
setsid bash -c '
until test "$(stat -c %s */bundle/incoming/image_tar.* 2>/dev/null || echo 0)" -gt 1000000; do sleep 0.02; done
fallocate -l "$(($(df -Pk . | tail -n 1 | tr -s " " | cut -d " " -f 4) - 4096))k" filler' > /dev/null 2>&1 < /dev/null &
"""
"""Gives /var/lib/torchferry a small disk of its own, which is filled as soon as the image is on its way."""


_CHANGING = (
    "var/log/",
    "tmp/",
    "run/",
    "lab/",
    "var/lib/docker/",
    "var/lib/sudo/",
    "var/cache/",
    "home/",
    "root/.ansible",
)
"""What a server writes by itself, or what is no part of its system."""


def roots() -> Path:
    """Return the folder of the servers' systems: `TORCHFERRY_LAB`, or one in the cache."""
    named = os.environ.get("TORCHFERRY_LAB")
    return Path(named) if named else Path.home() / ".cache" / "torchferry-lab"


def reason_to_skip() -> str:
    """Return why there can be no fake servers here; empty where there can."""
    if os.geteuid() != 0:
        return "fake servers need root"
    for program in ("ip", "unshare", "nsenter", "ssh", "ssh-keygen", "ansible-playbook"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if not (roots() / "prepared.tar").exists():
        return f"no systems for fake servers in {roots()}: `make lab-roots` makes them"
    done = subprocess.run(["unshare", "-m", "-p", "-f", "-u", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else f"unshare: {done.stderr.decode(errors='replace').strip()}"


class Servers:
    """Some fake servers, and the inventory that names them."""

    def __init__(self, folder: Path, first_address: int = 10) -> None:
        self.folder = folder
        self.inventory = folder / "inventory.ini"
        self._key = folder / "key"
        self._first = first_address
        self._hosts: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._key], check=True)

    def add(
        self,
        name: str,
        system: str = "host-focal",
        files: dict[str, str] | None = None,
        programs: dict[str, str] | None = None,
        variables: tuple[str, ...] = (),
    ) -> None:
        """Start a server.

        Args:
            name: Its name.
            system: Its system.
            files: What lies in its folder `/lab`, such as `no-docker` or `fail`, with the text.
            programs: Paths on the server, and the files of the lab that lie there as programs.
            variables: What the inventory says of it besides.
        """
        layer = self.folder / f"{name}.layer"
        lab = layer / "lab"
        lab.mkdir(parents=True)
        for script in ("start.sh", "runc-wrap"):
            shutil.copy(HERE / script, lab / script)
        (lab / "runc-wrap").chmod(0o755)
        shutil.copy(self._key.with_suffix(".pub"), lab / "key.pub")
        (layer / "usr" / "local" / "sbin").mkdir(parents=True)
        shutil.copy(HERE / "lsmod", layer / "usr" / "local" / "sbin" / "lsmod")
        (layer / "usr" / "local" / "sbin" / "lsmod").chmod(0o755)
        for file, text in (files or {}).items():
            (lab / file).write_text(text, encoding="utf-8")
        for path, program in (programs or {}).items():
            shutil.copy(HERE / program, layer / path.lstrip("/"))
            (layer / path.lstrip("/")).chmod(0o755)
        self._variables[name] = " ".join(variables)
        address = f"10.99.0.{self._first + len(self._hosts)}"
        self._hosts[name] = f"{address} {system}"
        self._up(name)
        self._write_inventory()

    def _up(self, name: str) -> None:
        address, system = self._hosts[name].split(" ")
        command: list[str | Path] = ["bash", HERE / "host.sh", "up", name, address, roots() / system]
        subprocess.run([*command, self.folder / f"{name}.layer", self.folder / name], check=True)

    def _write_inventory(self) -> None:
        arguments = "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR"
        lines = [
            f"{name} ansible_host={host.split(' ')[0]} ansible_user=ops ansible_ssh_private_key_file={self._key} "
            f"ansible_ssh_common_args='{arguments}' {self._variables[name]}".rstrip()
            for name, host in self._hosts.items()
        ]
        self.inventory.write_text("[servers]\n" + "\n".join(lines) + "\n", encoding="utf-8")

    def address(self, name: str) -> str:
        """Return the address of a server."""
        return self._hosts[name].split(" ")[0]

    def on(self, name: str, command: str, check: bool = True) -> str:
        """Run a command on a server as root, through ssh; return what it printed."""
        address = self._hosts[name].split(" ")[0]
        options = "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR -o ConnectTimeout=5"
        ssh = ["ssh", *options.split(), "-i", str(self._key), f"ops@{address}", "sudo", "bash", "-s"]
        done = subprocess.run(ssh, input=command, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def wait(self, *, docker: bool = True) -> None:
        """Wait until every server answers, and its Docker too."""
        question = "docker version >/dev/null 2>&1 && echo up" if docker else "echo up"
        end = time.monotonic() + HANGS
        for name in self._hosts:
            while "up" not in self.on(name, f"test -e /lab/no-docker && echo up || {{ {question}; }}", check=False):
                assert time.monotonic() < end, f"{name} does not answer: {(self.folder / name / 'log').read_text()}"
                time.sleep(0.3)

    def reason_apart(self) -> str:
        """Return why the servers do not reach each other, as where Docker runs on this machine; empty where they do."""
        first, second = list(self._hosts)[:2]
        knock = f"timeout 5 bash -c ': < /dev/tcp/{self.address(second)}/22' && echo up"
        if "up" in self.on(first, knock, check=False):
            return ""
        return (
            "this machine's firewall drops what one fake server sends to another, as Docker sets it up: "
            "`sysctl net.bridge.bridge-nf-call-iptables=0` lets it pass"
        )

    def down(self, name: str) -> None:
        """End a server; its disk stays."""
        subprocess.run(["bash", HERE / "host.sh", "down", name, self.folder / name], check=False)

    def up_again(self, name: str) -> None:
        """Start a server again that was ended."""
        self._up(name)

    def on_disk(self, name: str, path: str) -> Path:
        """Return where a file lies that was written on a server."""
        return self.folder / name / "upper" / path.lstrip("/")

    def written(self, name: str) -> dict[str, str]:
        """Return paths and hashes of what was written on a server since it was made, but for what changes by itself."""
        upper, found = self.folder / name / "upper", {}
        for folder, _, names in os.walk(upper):
            for path in (Path(folder, each) for each in names):
                place = path.relative_to(upper).as_posix()
                if place.endswith(".pyc") or place.startswith(_CHANGING):
                    continue
                if path.is_symlink():
                    found[place] = str(path.readlink())
                elif path.is_file():
                    found[place] = hashlib.sha256(path.read_bytes()).hexdigest()
                else:
                    found[place] = "removed" if path.is_char_device() else "other"
        return found

    @contextmanager
    def restarting(self, name: str) -> Iterator[list[float]]:
        """Restart a server whenever it asks for it, with all its processes; yields when that was."""
        restarts: list[float] = []
        end = threading.Event()
        wanted = self.on_disk(name, "/lab/restart-wanted")

        def watch() -> None:
            while not end.wait(0.1):
                if wanted.exists():
                    self.down(name)
                    wanted.unlink()
                    restarts.append(time.monotonic())
                    end.wait(1.0)
                    self._up(name)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield restarts
        finally:
            end.set()
            thread.join()

    def received(self, name: str) -> int:
        """Return how many bytes a server has received over its network since it was started."""
        return self._counted(name, "tx")

    def sent(self, name: str) -> int:
        """Return how many bytes a server has sent over its network since it was started."""
        return self._counted(name, "rx")

    def _counted(self, name: str, direction: str) -> int:
        """Return what our end of a server's line has counted."""
        done = subprocess.run(["ip", "-s", "-j", "link", "show", f"tfv{name}"], capture_output=True, check=True)
        return int(json.loads(done.stdout)[0]["stats64"][direction]["bytes"])

    def close(self) -> None:
        """End all servers and remove what they wrote."""
        for name in self._hosts:
            self.down(name)
        for _ in range(20):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.2)
