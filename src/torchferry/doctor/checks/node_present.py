"""Are the device nodes there? A program reaches a card through them; in a container they must be passed in."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Missing, Result, failed, passed, unverified
from torchferry.doctor.surroundings import surroundings

CODE = "node.present"
RANK = 1
SIDE = "host"
TITLE = say_in("check", "device nodes")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Look for each kind of node that the target has."""
    if not patient.needs.nodes:
        yield unverified(say("the device nodes"))
        return
    found = {node: patient.machine.find(node.pattern) for node in patient.needs.nodes}
    present = ", ".join(f"{len(paths)} x {node.pattern}" for node, paths in found.items() if paths)
    missing = [node for node, paths in found.items() if not paths]
    sources = "; ".join(dict.fromkeys(node.source for node in missing))
    if present:
        yield passed(say("there: {nodes}", nodes=present))
    if not missing:
        return
    names = ", ".join(node.pattern for node in missing)
    if surroundings(patient.machine).sign:
        yield failed(
            say("this container has no {nodes}", nodes=names),
            say("this container was started without the cards"),
            *filter(None, (patient.needs.container.bind, patient.needs.container.run)),
            advice=say("start the container anew: nodes cannot be added to one that runs"),
            source=patient.needs.container.source or sources,
            missing=None if present else Missing.CARD,
        )
        return
    loaded = patient.driver_loaded
    yield failed(
        say("there is no {nodes}", nodes=names),
        say("the driver is loaded and has found no card; see driver.pci")
        if loaded
        else say("the driver makes these nodes, and it is not loaded; see driver.module"),
        *(("sudo dmesg | tail -n 30",) if loaded else patient.needs.driver.install or ("lsmod",)),
        source=sources,
        missing=None if present else Missing.CARD if loaded else Missing.DRIVER,
    )
