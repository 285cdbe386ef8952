"""Can memory be taken on every device, written and read back?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.probe import tried
from torchferry.doctor.result import Result, passed


@check("probe.allocate", rank=2, side="probe", title=say_in("check", "memory"))
def probe_allocate(context: CheckContext) -> Iterator[Result]:
    """Judge the step for each device."""
    results, good = tried(context, "allocate")
    yield from results
    if good:
        yield passed(say("4 MiB written and read back on: {devices}", devices=", ".join(good)))
