"""Is the collective library there? Training on several cards needs it."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.checks.library_found import judged
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, unverified

CODE = "library.collective"
RANK = 3
SIDE = "host"
TITLE = say_in("check", "collective library")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Judge the library behind the collective backend."""
    wanted = [library for library in patient.needs.libraries if library.role == "collective"]
    if not wanted:
        yield unverified(say("which library is behind {name}", name=patient.target.backend.COLLECTIVE))
    for library in wanted:
        yield judged(patient, library)
