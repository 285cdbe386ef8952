"""Can memory be taken on every device, written and read back?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.probe import tried
from torchferry.doctor.result import Result, passed

CODE = "probe.allocate"
RANK = 2
SIDE = "probe"
TITLE = say_in("check", "memory")


def check(patient: Patient) -> Iterator[Result]:
    """Judge the step for each device."""
    results, good = tried(patient, "allocate")
    yield from results
    if good:
        yield passed(say("4 MiB written and read back on: {devices}", devices=", ".join(good)))
