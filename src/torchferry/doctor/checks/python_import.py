"""Can the plugin be imported? This loads the vendor's libraries and asks the driver."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.masking import masked
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed, skipped

CODE = "python.import"
RANK = 5
SIDE = "python"
TITLE = say_in("check", "importing the plugin")


def check(patient: Patient) -> Iterator[Result]:
    """Import torch and the plugin in a process of its own, and explain a failure that is known."""
    imported, plugin = patient.imported, patient.target.backend.PLUGIN
    if not imported.tried:
        yield skipped(say("torch or the plugin is missing; see python.torch and python.plugin"))
        return
    if not imported.error:
        yield passed(say("import {plugin}: version {version}", plugin=plugin, version=imported.version or "?"))
        return
    lines = [masked(line) for line in imported.error.splitlines() if line.strip()]
    evidence = tuple(line[:200] for line in lines[-4:])
    what = say("import {plugin} fails", plugin=plugin)
    known = patient.explained(imported.error)
    if known is not None:
        yield failed(what, known.cause, *known.commands, source=known.source, evidence=evidence)
        return
    if imported.ran is not None and imported.ran.problem == "timeout":
        cause = say("it does not come to an end: the driver does not answer, or another process holds every card")
    elif imported.ran is not None and imported.ran.status is not None and imported.ran.status < 0:
        cause = say(
            "the process crashed with signal {number}: libraries do not fit together", number=-imported.ran.status
        )
    else:
        cause = say("{line}", line=lines[-1][:300] if lines else "?")
    yield failed(
        what,
        cause,
        f"cd / && {patient.machine.python} -c 'import torch, {plugin}'",
        advice=say("the checks of host and libraries above say what it may lack"),
        evidence=evidence,
    )
