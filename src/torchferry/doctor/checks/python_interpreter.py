"""Which Python is examined, and does it answer?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.masking import masked
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed

CODE = "python.interpreter"
RANK = 1
SIDE = "python"
TITLE = say_in("check", "interpreter")


def check(patient: Patient) -> Iterator[Result]:
    """Judge whether the program of ours ran in it."""
    python = patient.python
    path = patient.machine.python
    if not python.version:
        lines = tuple(masked(line) for line in python.ran.first_lines())
        known = patient.explained(python.ran.out + python.ran.err)
        yield failed(
            say("{python} cannot be asked", python=path),
            known.cause
            if known
            else say("there is no such program, it is older than Python 3.8, or it does not start"),
            *(known.commands if known else ()),
            "torchferry doctor --python /path/to/python",
            f"{path} --version",
            source=known.source if known else "",
            evidence=lines,
        )
        return
    if python.bits != 64:
        yield failed(
            say("{python} is a 32-bit Python", python=path),
            say("torch has no build for it"),
            "torchferry doctor --python /path/to/python",
        )
        return
    yield passed(say("Python {version}, {path}", version=python.version, path=python.executable))
