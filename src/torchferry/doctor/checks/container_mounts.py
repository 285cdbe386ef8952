"""Were the paths of the host mounted that the cards need inside a container?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Missing, Result, failed, passed, skipped
from torchferry.doctor.surroundings import unjudged

CODE = "container.mounts"
RANK = 1
SIDE = "container"
TITLE = say_in("check", "mounts of the driver")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Look for the paths; the nodes are judged by node.present."""
    container = patient.needs.container
    reason = unjudged(patient)
    if reason is not None:
        yield reason
        return
    if not container.mounts:
        yield skipped(say("no path of the host is known to be needed"))
        return
    missing = [path for path in container.mounts if patient.machine.entry(path) is None]
    if missing:
        yield failed(
            say("this container has not {paths}", paths=", ".join(missing)),
            say("they come from the host's driver and must be mounted"),
            container.run,
            source=container.source,
            missing=Missing.CARD,
        )
    else:
        yield passed(say("the driver of the host is mounted"), source=container.source)
