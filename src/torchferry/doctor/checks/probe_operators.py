"""Do the groups of operators work, and do they compute what the CPU computes?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.probe import parts
from torchferry.doctor.result import Result, failed, passed, skipped

CODE = "probe.operators"
RANK = 5
SIDE = "probe"
TITLE = say_in("check", "operators")


def check(patient: Patient) -> Iterator[Result]:
    """Judge each group."""
    good, bad = parts(patient, "operators")
    for name, error in bad.items():
        yield failed(
            say("group `{name}`: {error}", name=name, error=error),
            say("an operator of the group is missing on the card, or computes something else"),
            f"torchferry rehearse -t {patient.target.name} -- python YOUR_PROGRAM.py  # says which lines use it",
        )
    if good:
        yield passed(say("as on the CPU: {names}", names=", ".join(good)))
    elif not bad:
        yield skipped(say("the probe did not come so far"))
