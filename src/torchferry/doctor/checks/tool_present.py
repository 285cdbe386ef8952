"""Is the management tool there, and does it answer? It is what shows cards, their health and who uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.doctor.masking import masked
from torchferry.doctor.patient import Asked, Patient
from torchferry.doctor.result import Missing, Result, failed, passed, unknown, unverified, warned
from torchferry.doctor.surroundings import surroundings

CODE = "tool.present"
RANK = 1
SIDE = "host"
TITLE = say_in("check", "management tool")
CARD = True

_LIBRARY = re.compile(r"error while loading shared libraries: ([^:\s]+)")


def check(patient: Patient) -> Iterator[Result]:
    """Judge how the tool ended and whether its output has a known format."""
    name = patient.tool_name
    if isinstance(name, Unknown):
        yield unverified(say("the management tool"))
        return
    asked = patient.asked
    if asked.path is None or asked.ran is None:
        inside = surroundings(patient.machine).sign
        mend = (
            (patient.needs.container.run,) if inside and patient.needs.container.run else patient.needs.driver.install
        )
        yield failed(
            say("{tool} is not on PATH", tool=name),
            say("it comes with the driver, which is not installed here; in a container it comes from the host"),
            *(mend or (f"which {name}",)),
            source=patient.target.backend.source_of("SMI"),
            missing=Missing.DRIVER,
        )
        return
    if asked.path and "/" in asked.path and patient.machine.which(name) is None:
        folder = asked.path.rpartition("/")[0]
        yield warned(
            say("{tool} lies in {folder}, which is not on PATH", tool=name, folder=folder),
            say("programs that call it do not find it"),
            f"export PATH={folder}:$PATH",
        )
    yield _judged(patient, asked)


def _judged(patient: Patient, asked: Asked) -> Result:
    ran, name = asked.ran, str(patient.tool_name)
    assert ran is not None
    lines = tuple(masked(line) for line in ran.first_lines())
    text = ran.out + ran.err
    known = patient.explained(text, *patient.tool.failures)
    if known is not None:
        return failed(say("{tool} fails", tool=name), known.cause, *known.commands, source=known.source, evidence=lines)
    library = _LIBRARY.search(text)
    if library:
        folders = ":".join(patient.needs.sdk.folders)
        return failed(
            say("{tool} does not start: it does not find {library}", tool=name, library=library[1]),
            say("the folder of the driver's libraries is not on the loader's path"),
            f"export LD_LIBRARY_PATH={folders}:$LD_LIBRARY_PATH",
            evidence=lines,
        )
    if asked.reading.cards:
        if asked.reading.unread:
            return unknown(
                say_plural(
                    "{count} card in the output of {tool} could not be read",
                    "{count} cards in the output of {tool} could not be read",
                    count=asked.reading.unread,
                    tool=name,
                ),
                evidence=lines,
            )
        count = len(asked.reading.cards)
        version = asked.reading.version or "?"
        return passed(
            say_plural(
                "{tool} {version} shows {count} device",
                "{tool} {version} shows {count} devices",
                tool=name,
                version=version,
                count=count,
            )
        )
    if ran.problem or not ran.well:
        return failed(
            say("{tool} {how}", tool=name, how=_how(ran.problem, ran.status)),
            say("it asks the driver, which does not answer; see driver.module and node.access"),
            f"sudo {' '.join((name, *asked.command[1:]))}",
            "sudo dmesg | tail -n 30",
            evidence=lines,
        )
    return unknown(
        say("{tool} printed what torchferry cannot read: a format that nobody has described yet", tool=name),
        evidence=lines,
    )


def _how(problem: str, status: int | None) -> Message:
    if problem == "timeout":
        return say("does not come to an end; it was stopped")
    if problem == "flood":
        return say("prints without end; it was stopped")
    if problem:
        return say("cannot be started")
    return say("ends with exit status {status}", status=status)
