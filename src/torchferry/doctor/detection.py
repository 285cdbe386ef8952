"""Which target's machine this is, when the user does not say: by what is there, never by what is likely."""

from __future__ import annotations

from torchferry.backends import machine as needs
from torchferry.backends import registry, smi
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.doctor.host import Machine


def signs(machine: Machine, name: str) -> list[str]:
    """Return what on the machine speaks for a target: its module, its nodes, its tool, its plugin."""
    target = Target.named(name)
    backend = target.backend
    found = []
    facts = needs.facts(backend)
    if not isinstance(backend.DRIVER_MODULE, Unknown) and machine.entry(f"/sys/module/{backend.DRIVER_MODULE}"):
        found.append(f"/sys/module/{backend.DRIVER_MODULE}")
    for node in facts.nodes:
        if node.kind == "card":
            found += machine.find(node.pattern)[:1]
    if not isinstance(backend.SMI, Unknown):
        tool = machine.which(backend.SMI, smi.tool(backend).places)
        found += [tool] if tool else []
    for path in facts.sdk.scripts:
        found += machine.find(path)[:1]
    packages = (path for folder in machine.package_folders() for path in machine.find(f"{folder}/{backend.PLUGIN}"))
    return found + list(packages)[:1]


def sought(name: str) -> list[str]:
    """Return what would speak for a target."""
    backend = Target.named(name).backend
    module = [] if isinstance(backend.DRIVER_MODULE, Unknown) else [f"/sys/module/{backend.DRIVER_MODULE}"]
    nodes = [node.pattern for node in needs.facts(backend).nodes if node.kind == "card"]
    tool = [] if isinstance(backend.SMI, Unknown) else [backend.SMI]
    return [*module, *nodes, *tool, *needs.facts(backend).sdk.scripts, backend.PLUGIN]


def detect(machine: Machine) -> dict[str, list[str]]:
    """Return the targets that something on the machine speaks for, with what does."""
    found = {name: signs(machine, name) for name in registry.names()}
    return {name: what for name, what in found.items() if what}


def decide(found: dict[str, list[str]]) -> str | None:
    """Return the one target that has more speaking for it than any other; None when there is none.

    Two families of one vendor share driver, nodes and tool; what only one of them has decides.
    """
    ranked = sorted(found, key=lambda name: len(found[name]), reverse=True)
    if not ranked or (len(ranked) > 1 and len(found[ranked[0]]) == len(found[ranked[1]])):
        return None
    return ranked[0]
