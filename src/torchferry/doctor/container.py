"""Whether this is a container, and what it was given, as far as can be told from inside."""

from __future__ import annotations

from dataclasses import dataclass

from torchferry.core.messages import say
from torchferry.doctor.context import Patient
from torchferry.doctor.host import Machine
from torchferry.doctor.result import Result, skipped, unverified

_SIGNS = ("docker", "kubepods", "containerd", "libpod", "lxc", "isulad")


@dataclass(frozen=True)
class Surroundings:
    """A container, as it is seen from inside.

    Attributes:
        sign: What gives it away; empty on a host.
        privileged: Whether it has every capability that the kernel knows.
        bridged: Whether its network is one of its own; None when that cannot be told.
    """

    sign: str = ""
    privileged: bool = False
    bridged: bool | None = None


def surroundings(machine: Machine) -> Surroundings:
    """Look around."""
    sign = _sign(machine)
    return Surroundings(sign, _privileged(machine), _bridged(machine)) if sign else Surroundings()


def unjudged(patient: Patient) -> Result | None:
    """Return why what a container was given is not judged: this is none, or nobody has said what it needs."""
    if not surroundings(patient.machine).sign:
        return skipped(say("this is no container"))
    return None if patient.needs.container.source else unverified(say("what a container must be given"))


def _sign(machine: Machine) -> str:
    for path in ("/.dockerenv", "/run/.containerenv"):
        if machine.entry(path) is not None:
            return path
    if machine.environment.get("KUBERNETES_SERVICE_HOST"):
        return "KUBERNETES_SERVICE_HOST"
    groups = machine.read("/proc/1/cgroup") or ""
    return next((f"/proc/1/cgroup: {sign}" for sign in _SIGNS if sign in groups), "")


def _privileged(machine: Machine) -> bool:
    last = (machine.read("/proc/sys/kernel/cap_last_cap") or "").strip()
    for line in (machine.read("/proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "CapBnd" and last.isdigit():
            return int(value, 16) == (1 << (int(last) + 1)) - 1
    return False


def _bridged(machine: Machine) -> bool | None:
    """Tell by a network card that is one end of a pair: such a pair joins a container to a bridge."""
    cards = [path for path in machine.find("/sys/class/net/*") if not path.endswith("/lo")]
    pairs = []
    for card in cards:
        own, peer = machine.read(f"{card}/ifindex"), machine.read(f"{card}/iflink")
        if own is None or peer is None:
            continue
        pairs.append(own.strip() != peer.strip())
    return None if not pairs else all(pairs)
