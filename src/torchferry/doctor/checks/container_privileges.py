"""Has the container the privileges that the vendor's own command line gives it?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Missing, Result, passed, warned
from torchferry.doctor.surroundings import surroundings, unjudged

CODE = "container.privileges"
RANK = 2
SIDE = "container"
TITLE = say_in("check", "privileges")


def check(patient: Patient) -> Iterator[Result]:
    """Compare the capabilities with `--privileged`."""
    container = patient.needs.container
    reason = unjudged(patient)
    if reason is not None:
        yield reason
    elif "privileged" not in container.flags:
        yield passed(say("no `--privileged` is needed"), source=container.source)
    elif surroundings(patient.machine).privileged:
        yield passed(say("the container is privileged"), source=container.source)
    else:
        yield warned(
            say("the container is not privileged"),
            say("the vendor starts it with --privileged; without, the device may not open"),
            container.run,
            source=container.source,
            missing=None if patient.card_nodes else Missing.CARD,
        )
