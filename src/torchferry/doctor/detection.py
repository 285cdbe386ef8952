"""Which target's machine this is, when the user does not say: by what is there, never by what is likely."""

from __future__ import annotations

from torchferry.backends import registry, smi
from torchferry.backends.machine import facts as host_requirements
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.doctor.host import Host


def signs(host: Host, name: str) -> list[str]:
    """Return what on the machine speaks for a target: its module, its nodes, its tool, its plugin."""
    target = Target.named(name)
    backend = target.backend
    evidence = []
    requirements = host_requirements(backend)
    if not isinstance(backend.DRIVER_MODULE, Unknown) and host.entry(f"/sys/module/{backend.DRIVER_MODULE}"):
        evidence.append(f"/sys/module/{backend.DRIVER_MODULE}")
    for node in requirements.nodes:
        if node.kind == "card":
            evidence += host.find(node.pattern)[:1]
    if not isinstance(backend.SMI, Unknown):
        tool = host.which(backend.SMI, smi.tool(backend).places)
        evidence += [tool] if tool else []
    for path in requirements.sdk.scripts:
        evidence += host.find(path)[:1]
    packages = (path for folder in host.package_folders() for path in host.find(f"{folder}/{backend.PLUGIN}"))
    return evidence + list(packages)[:1]


def sought(name: str) -> list[str]:
    """Return what would speak for a target."""
    backend = Target.named(name).backend
    module = [] if isinstance(backend.DRIVER_MODULE, Unknown) else [f"/sys/module/{backend.DRIVER_MODULE}"]
    nodes = [node.pattern for node in host_requirements(backend).nodes if node.kind == "card"]
    tool = [] if isinstance(backend.SMI, Unknown) else [backend.SMI]
    return [*module, *nodes, *tool, *host_requirements(backend).sdk.scripts, backend.PLUGIN]


def detect(host: Host) -> dict[str, list[str]]:
    """Return the targets that something on the machine speaks for, with what does."""
    evidence = {name: signs(host, name) for name in registry.names()}
    return {name: signs_found for name, signs_found in evidence.items() if signs_found}


def decide(evidence: dict[str, list[str]]) -> str | None:
    """Return the one target that has more speaking for it than any other; None when there is none.

    Two families of one vendor share driver, nodes and tool; what only one of them has decides.
    """
    ranked = sorted(evidence, key=lambda name: len(evidence[name]), reverse=True)
    if not ranked or (len(ranked) > 1 and len(evidence[ranked[0]]) == len(evidence[ranked[1]])):
        return None
    return ranked[0]
