"""Do the groups of operators work, and do they compute what the CPU computes?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.probe import parts
from torchferry.doctor.result import Result, failed, passed, skipped


@check("probe.operators", rank=5, side="probe", title=say_in("check", "operators"))
def probe_operators(context: CheckContext) -> Iterator[Result]:
    """Judge each group."""
    good, bad = parts(context, "operators")
    for name, error in bad.items():
        yield failed(
            say("group `{name}`: {error}", name=name, error=error),
            say("an operator of the group is missing on the card, or its result is wrong"),
            f"torchferry rehearse -t {context.target} -- python YOUR_PROGRAM.py  # says which lines use it",
        )
    if good:
        yield passed(say("same results as on the CPU: {names}", names=", ".join(good)))
    elif not bad:
        yield skipped(say("the probe did not get this far"))
