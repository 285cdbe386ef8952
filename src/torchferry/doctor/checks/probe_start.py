"""Does the device start: is the plugin imported, are devices counted?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import Bilingual, say
from torchferry.doctor.patient import Patient
from torchferry.doctor.probe import step
from torchferry.doctor.result import Result, failed, passed

CODE = "probe.start"
RANK = 1
SIDE = "probe"
TITLE = Bilingual("start of the device", "设备启动")


def check(patient: Patient) -> Iterator[Result]:
    """Judge the first step, and say whether the probe came to its end."""
    probe = patient.probe or {}
    plugin = patient.target.backend.PLUGIN
    start = step(probe, "start")
    if start is None or start.get("error"):
        yield failed(
            say("the device does not start: {error}", error=(start or {}).get("error") or probe.get("stopped") or "?"),
            say("the plugin cannot be imported, or it sees no device; see the checks above"),
            f"{patient.machine.python} -c 'import torch, {plugin}'",
            evidence=tuple(probe.get("lines", ())),
        )
        return
    yield passed(say("{count} devices: {name}", count=start["devices"], name=start.get("name") or "?"))
    if probe.get("stopped"):
        yield failed(
            say(
                "the probe did not come to its end: {how} during {step}",
                how=probe["stopped"],
                step=probe.get("doing", "?"),
            ),
            say("the device hangs or its library crashes there"),
            "sudo dmesg | tail -n 30",
            evidence=tuple(probe.get("lines", ())),
        )
