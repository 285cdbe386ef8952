"""Is a matrix product right on every device?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.probe import tried
from torchferry.doctor.result import Result, passed

CODE = "probe.matmul"
RANK = 3
SIDE = "probe"
TITLE = say_in("check", "matrix product")


def check(patient: Patient) -> Iterator[Result]:
    """Judge the step for each device."""
    results, good = tried(patient, "matmul")
    yield from results
    if good:
        yield passed(say("256 x 256 as on the CPU (within 1 %) on: {devices}", devices=", ".join(good)))
