"""Is a matrix product right on every device?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.probe import tried
from torchferry.doctor.result import Result, passed


@check("probe.matmul", rank=3, side="probe", title=say_in("check", "matrix product"))
def probe_matmul(context: CheckContext) -> Iterator[Result]:
    """Judge the step for each device."""
    results, good = tried(context, "matmul")
    yield from results
    if good:
        yield passed(say("a 256 x 256 product agrees with the CPU (within 1 %) on: {devices}", devices=", ".join(good)))
