"""Whether this is a container, and what it was given, as far as can be told from inside."""

from __future__ import annotations

from dataclasses import dataclass

from torchferry.core.messages import say
from torchferry.doctor.context import CheckContext
from torchferry.doctor.host import Host
from torchferry.doctor.result import Result, skipped, unverified

_SIGNS = ("docker", "kubepods", "containerd", "libpod", "lxc", "isulad")


@dataclass(frozen=True)
class ContainerInfo:
    """A container, as it is seen from inside.

    Attributes:
        evidence: What gives it away; empty on a host.
        privileged: Whether it has every capability that the kernel knows.
        bridged: Whether its network is one of its own; None when that cannot be told.
    """

    evidence: str = ""
    privileged: bool = False
    bridged: bool | None = None


def container_info(host: Host) -> ContainerInfo:
    """Look around."""
    evidence = _sign(host)
    return ContainerInfo(evidence, _privileged(host), _bridged(host)) if evidence else ContainerInfo()


def skip_unless_container(context: CheckContext) -> Result | None:
    """Return why what a container was given is not judged: this is none, or nobody has said what it needs."""
    if not container_info(context.host).evidence:
        return skipped(say("this is no container"))
    return (
        None
        if context.requirements.container.source
        else unverified(say("which devices, mounts and options a container needs"))
    )


def _sign(host: Host) -> str:
    for path in ("/.dockerenv", "/run/.containerenv"):
        if host.entry(path) is not None:
            return path
    if host.environment.get("KUBERNETES_SERVICE_HOST"):
        return "KUBERNETES_SERVICE_HOST"
    groups = host.read("/proc/1/cgroup") or ""
    return next((f"/proc/1/cgroup: {evidence}" for evidence in _SIGNS if evidence in groups), "")


def _privileged(host: Host) -> bool:
    last = (host.read("/proc/sys/kernel/cap_last_cap") or "").strip()
    for line in (host.read("/proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "CapBnd" and last.isdigit():
            return int(value, 16) == (1 << (int(last) + 1)) - 1
    return False


def _bridged(host: Host) -> bool | None:
    """Tell by a network card that is one end of a pair: such a pair joins a container to a bridge."""
    cards = [path for path in host.find("/sys/class/net/*") if not path.endswith("/lo")]
    pairs = []
    for card in cards:
        own, peer = host.read(f"{card}/ifindex"), host.read(f"{card}/iflink")
        if own is None or peer is None:
            continue
        pairs.append(own.strip() != peer.strip())
    return None if not pairs else all(pairs)
