"""Which driver is it? The version is needed for every question to the vendor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed, skipped, unknown, warned
from torchferry.doctor.surroundings import surroundings

CODE = "driver.version"
RANK = 4
SIDE = "host"
TITLE = say_in("check", "driver version")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Read the version from the driver's file and from the tool, and compare the two."""
    version, where = patient.driver_version
    told = patient.asked.reading.driver
    if not version:
        if patient.driver_loaded:
            yield unknown(
                say("the driver is loaded, and nothing states its version"), source=patient.needs.driver.source
            )
        else:
            yield skipped(say("there is no driver; see driver.module"))
        return
    files = patient.needs.driver.versions
    if files and told and told != version and not (version in told or told in version):
        inside = surroundings(patient.machine).sign
        mend = patient.needs.container.run if inside else "sudo reboot"
        yield (failed if inside else warned)(
            say("{where} says driver {version}, and the tool says {told}", where=where, version=version, told=told),
            say("the image brings a driver of its own, and the host runs another")
            if inside
            else say("the driver was upgraded, and the old one still runs"),
            mend or "sudo reboot",
            source=patient.needs.driver.source,
        )
        return
    runtime = patient.asked.reading.runtime
    if runtime and _release(runtime) != _release(told or version):
        yield warned(
            say("the driver is {driver}, and the runtime is {runtime}", driver=told or version, runtime=runtime),
            say("driver and runtime belong to one release; with others programs may not start"),
            patient.needs.container.run if surroundings(patient.machine).sign else " ".join(patient.asked.command),
            advice=patient.needs.driver.advice,
            source="; ".join(dict.fromkeys((patient.tool.source, patient.needs.driver.source))),
        )
        return
    yield passed(say("driver {version}, says {where}", version=version, where=where))


def _release(version: str) -> tuple[str, ...]:
    """Return the numbers of a release: 1.1.2b0 and 1.1.2b1 are of one."""
    return tuple(re.findall(r"\d+", version.partition("b")[0])[:3])
