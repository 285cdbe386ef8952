"""Do the variables that choose cards say what is meant? A wrong one hides cards without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import Bilingual, say
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed, unverified, warned
from torchferry.doctor.surroundings import surroundings

CODE = "environment.visible_devices"
RANK = 1
SIDE = "host"
TITLE = Bilingual("variables that choose cards", "可见设备变量")

_CUDA = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_NUMBERS = re.compile(r"\d+(?:,\d+)*")


def check(patient: Patient) -> Iterator[Result]:
    """Look at the target's variables and at those of CUDA."""
    environment = patient.machine.environment
    backend = patient.target.backend
    name, outer = backend.VISIBLE_DEVICES, backend.CONTAINER_VISIBLE_DEVICES
    if isinstance(name, Unknown):
        yield unverified(say("the variable that chooses cards"))
        return
    well = True
    for other in _CUDA:
        if environment.get(other) and other not in (name, outer):
            well = False
            yield warned(
                say("{other} is set, and has no meaning here", other=other),
                say("on these cards {name} chooses", name=name),
                f"export {name}={environment[other]}; unset {other}" if other == _CUDA[0] else f"unset {other}",
                source=backend.SOURCES.get("VISIBLE_DEVICES", ""),
            )
    value = environment.get(name)
    if value is not None:
        found = list(_judged(patient, name, value.strip()))
        yield from found
        well = well and not found
    if isinstance(outer, str) and not patient.rehearsed and surroundings(patient.machine).sign:
        result = _outer(patient, outer)
        if result is not None:
            well = False
            yield result
    if well:
        yield passed(
            say("{name} is {value}", name=name, value=value)
            if value is not None
            else say("{name} is not set: every card is used", name=name)
        )


def _judged(patient: Patient, name: str, value: str) -> Iterator[Result]:
    source = patient.target.backend.SOURCES.get("VISIBLE_DEVICES", "")
    if value in ("", "-1"):
        yield failed(
            say("{name} is `{value}`, which hides every card", name=name, value=value),
            say("a program then says that there is no device"),
            f"unset {name}",
            source=source,
        )
        return
    if not _NUMBERS.fullmatch(value):
        yield warned(
            say("{name} is `{value}`, which is not a list of numbers", name=name, value=value),
            say("names of cards and other texts are not read alike everywhere; reading may stop at the first of them"),
            f"export {name}=0",
            source=source,
        )
        return
    numbers = [int(number) for number in value.split(",")]
    count = len(patient.cards)
    if count and max(numbers) >= count:
        yield failed(
            say("{name} names device {number}, and there are {count}", name=name, number=max(numbers), count=count),
            say("numbers begin at 0; in a container they count the cards of the container"),
            f"export {name}={','.join(map(str, range(count)))}",
            source=source,
        )
    elif numbers != sorted(set(numbers)):
        yield warned(
            say("{name} is {value}: numbers twice or out of order", name=name, value=value),
            say("not every plugin takes them in another order"),
            f"export {name}={','.join(map(str, sorted(set(numbers))))}",
            source=source,
        )


def _outer(patient: Patient, outer: str) -> Result | None:
    value = patient.machine.environment.get(outer)
    source = patient.target.backend.SOURCES.get("CONTAINER_VISIBLE_DEVICES", "")
    if value is None and patient.needs.container.variable_needed:
        return failed(
            say("{name} is not set in this container", name=outer),
            say("the container runtime passes no card in without it"),
            patient.needs.container.run,
            source=patient.needs.container.source,
        )
    if value in ("void", "none", ""):
        return failed(
            say("{name} is `{value}`, which hides every card", name=outer, value=value),
            say("the container runtime then passes no card in"),
            patient.needs.container.run or f"docker run --env {outer}=all ...",
            source=source,
        )
    return None
