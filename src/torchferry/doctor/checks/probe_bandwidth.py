"""How fast do data go between host and device? It is measured, never assumed; a rehearsal has no such figure."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.probe import step
from torchferry.doctor.result import Result, passed, skipped, unknown

CODE = "probe.bandwidth"
RANK = 7
SIDE = "probe"
TITLE = say_in("check", "host and device")


def check(patient: Patient) -> Iterator[Result]:
    """Report what was measured."""
    found = step(patient.probe or {}, "bandwidth")
    if patient.rehearsed:
        yield skipped(say("a rehearsal says nothing about the card's speed"))
    elif found is None:
        yield skipped(say("the probe did not come so far"))
    elif found.get("error"):
        yield unknown(say("not measured: {error}", error=found["error"]))
    else:
        yield passed(
            say(
                "measured with {size} MiB: {up} GB/s to the device, {down} GB/s back",
                size=found["mebibytes"],
                up=f"{found['up']:.1f}",
                down=f"{found['down']:.1f}",
            )
        )
