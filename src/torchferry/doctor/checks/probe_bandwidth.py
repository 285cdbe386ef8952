"""How fast do data go between host and device? It is measured, never assumed; a rehearsal has no such figure."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.probe import step
from torchferry.doctor.result import Result, passed, skipped, unknown


@check("probe.bandwidth", rank=8, side="probe", title=say_in("check", "host and device"))
def probe_bandwidth(context: CheckContext) -> Iterator[Result]:
    """Report what was measured."""
    outcome = step(context.probe or {}, "bandwidth")
    if context.rehearsed:
        yield skipped(say("a rehearsal says nothing about the card's speed"))
    elif outcome is None:
        yield skipped(say("the probe did not get this far"))
    elif outcome.get("error"):
        yield unknown(say("not measured: {error}", error=outcome["error"]))
    else:
        yield passed(
            say(
                "measured with {size} MiB: {up} GB/s to the device, {down} GB/s back",
                size=outcome["mebibytes"],
                up=f"{outcome['up']:.1f}",
                down=f"{outcome['down']:.1f}",
            )
        )
