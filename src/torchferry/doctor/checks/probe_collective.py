"""Do all devices of this machine reach each other through the collective library?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.probe import longer, step
from torchferry.doctor.result import Result, failed, passed, skipped, warned


@check("probe.collective", rank=7, side="probe", title=say_in("check", "collective between all devices"))
def probe_collective(context: CheckContext) -> Iterator[Result]:
    """Judge the sum over a rank for each device."""
    outcome = step(context.probe or {}, "collective")
    name = context.target.backend.COLLECTIVE
    if outcome is None:
        yield skipped(say("the probe did not get this far"))
    elif outcome.get("skipped"):
        yield skipped(say("there is only one device, so no collective was tested"))
    elif outcome.get("limit"):
        yield warned(
            say_plural(
                "{name} over {count} device did not finish within {seconds} s, its share of the probe's time limit",
                "{name} over {count} devices did not finish within {seconds} s, its share of the probe's time limit",
                name=name,
                count=outcome["ranks"],
                seconds=f"{outcome['limit']:.0f}",
            ),
            say("the time limit does not distinguish a hang from slowness; try a longer one"),
            longer(context),
            advice=say("see library.collective, system.limits and container.shared_memory"),
            evidence=tuple(outcome.get("lines", ())),
        )
    elif outcome.get("error"):
        yield failed(
            say_plural(
                "{name} over {count} device: {error}",
                "{name} over {count} devices: {error}",
                name=name,
                count=outcome["ranks"],
                error=outcome["error"],
            ),
            say("the collective library does not start, or the devices do not reach each other"),
            f"ls /dev/shm; ulimit -l; env | grep -i {name}",
            advice=say("see library.collective, system.limits and container.shared_memory"),
            evidence=tuple(outcome.get("lines", ())),
        )
    else:
        yield passed(
            say_plural(
                "{name}: a sum over {count} device is correct",
                "{name}: a sum over {count} devices is correct",
                name=name,
                count=outcome["ranks"],
            )
        )
