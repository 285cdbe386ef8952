"""Does the device start: is the plugin imported, are devices counted?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.probe import longer, step
from torchferry.doctor.result import Result, failed, passed, warned


@check("probe.start", rank=1, side="probe", title=say_in("check", "start of the device"))
def probe_start(context: CheckContext) -> Iterator[Result]:
    """Judge the first step, and say whether the probe came to its end."""
    probe = context.probe or {}
    plugin = context.target.backend.PLUGIN
    start = step(probe, "start")
    limit = f"{probe.get('timeout', 0):g}"
    if start is None and probe.get("stopped") == "timeout":
        yield failed(
            say("the device did not start within the time limit of {seconds} s", seconds=limit),
            say("the time limit does not distinguish a hang from slowness; try a longer one"),
            longer(context),
            advice=say("a process that holds every card makes others wait; see card.memory"),
            evidence=tuple(probe.get("lines", ())),
        )
        return
    if start is None or start.get("error"):
        error = (start or {}).get("error") or probe.get("stopped") or "?"
        explanation = context.explained("\n".join((error, *probe.get("lines", ()))))
        yield failed(
            say("the device does not start: {error}", error=error),
            explanation.cause
            if explanation
            else say("the plugin cannot be imported, or it sees no device; see the checks above"),
            *(explanation.commands if explanation else (f"{context.host.python} -c 'import torch, {plugin}'",)),
            source=explanation.source if explanation else "",
            evidence=tuple(probe.get("lines", ())),
        )
        return
    yield passed(
        say_plural(
            "{count} device: {name}", "{count} devices: {name}", count=start["devices"], name=start.get("name") or "?"
        )
    )
    if probe.get("stopped") == "timeout":
        yield warned(
            say(
                "the time limit of {seconds} s ended the probe during {step}",
                seconds=limit,
                step=probe.get("doing", "?"),
            ),
            say("the time limit does not distinguish a hang from slowness; try a longer one"),
            longer(context),
            "sudo dmesg | tail -n 30",
            advice=say("later steps were not tested; the first use of an operator may compile it"),
            evidence=tuple(probe.get("lines", ())),
        )
    elif probe.get("stopped"):
        yield failed(
            say(
                "the probe did not finish: {how} during {step}",
                how=probe["stopped"],
                step=probe.get("doing", "?"),
            ),
            say("the plugin or a library ended the process at this step"),
            "sudo dmesg | tail -n 30",
            evidence=tuple(probe.get("lines", ())),
        )
