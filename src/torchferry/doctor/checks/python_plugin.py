"""Is the plugin installed? Where its wheel lies on the machine and was not installed, that is said."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.installing import install_commands
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Missing, Result, failed, passed, skipped

CODE = "python.plugin"
RANK = 4
SIDE = "python"
TITLE = say_in("check", "plugin")


def check(patient: Patient) -> Iterator[Result]:
    """Look for each module of the plugin without importing it."""
    python = patient.python
    if not python.version:
        yield skipped(say("there is no Python to look into; see python.interpreter"))
        return
    modules = (patient.target.backend.PLUGIN,) if patient.rehearsed else patient.plugin_modules
    for module in modules:
        if python.has(module):
            version = python.installed(module) or (patient.plugin if module == patient.target.backend.PLUGIN else "")
            yield passed(say("{module} {version}", module=module, version=version or "?"))
            continue
        wheels = [
            path
            for name, pattern in patient.needs.python.wheels
            if name == module
            for path in patient.machine.find(pattern)
        ]
        if wheels:
            yield failed(
                say("{module} lies on this machine and is not installed: {wheel}", module=module, wheel=wheels[-1]),
                say("the toolkit's installer brings the wheel and leaves installing it to you"),
                f"{patient.machine.python} -m pip install {wheels[-1]}",
                source=patient.needs.python.source,
            )
            continue
        yield failed(
            say("{module} is not installed in {python}", module=module, python=python.executable),
            say("without it torch knows no device {device}", device=patient.target.backend.DEVICE_TYPE),
            *install_commands(patient),
            advice=patient.target.install,
            source=patient.target.backend.source_of("INSTALL"),
            missing=Missing.PLUGIN,
        )
