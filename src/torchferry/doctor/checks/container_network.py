"""Has the container the host's network, where ranks of several hosts must meet?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, passed, skipped, unknown, warned
from torchferry.doctor.surroundings import surroundings

CODE = "container.network"
RANK = 3
SIDE = "container"
TITLE = say_in("check", "network")


def check(patient: Patient) -> Iterator[Result]:
    """Look whether every network card is one end of a pair, as on a bridge."""
    around = surroundings(patient.machine)
    container = patient.needs.container
    if not around.sign:
        yield skipped(say("this is no container"))
    elif around.bridged is None:
        yield unknown(say("whether this container has the host's network cannot be told"), "ls /sys/class/net")
    elif not around.bridged:
        yield passed(say("the container has the host's network"))
    elif "network" in container.flags:
        yield warned(
            say("the container has a network of its own"),
            say("the vendor starts it with the host's; ranks on other hosts do not reach it"),
            container.run,
            source=container.source,
        )
    else:
        yield passed(say("the container has a network of its own, which is enough for one host"))
