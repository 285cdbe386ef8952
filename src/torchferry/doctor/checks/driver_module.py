"""Is the driver's kernel module loaded? Without it there are no device nodes and no cards."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Missing, Result, failed, passed, skipped, unverified
from torchferry.doctor.surroundings import surroundings

CODE = "driver.module"
RANK = 2
SIDE = "host"
TITLE = say_in("check", "driver module")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Compare /proc/modules and /sys/module with the driver's name."""
    name = patient.target.backend.DRIVER_MODULE
    if isinstance(name, Unknown):
        yield unverified(say("the name of the driver's kernel module"))
        return
    source = patient.target.backend.source_of("DRIVER_MODULE")
    if patient.driver_loaded:
        yield passed(say("kernel module {name} is loaded", name=name), source=source)
        return
    if patient.machine.read("/proc/modules") is None:
        yield skipped(say("this system does not show its kernel modules"))
        return
    inside = surroundings(patient.machine).sign
    if patient.machine.kernel in patient.kernels_with_driver:
        yield failed(
            say("kernel module {name} is not loaded", name=name),
            say("it is built for this kernel, and nothing has loaded it"),
            f"sudo modprobe {name}",
            "sudo dmesg | tail -n 30",
            source=source,
            missing=Missing.DRIVER,
        )
        return
    yield failed(
        say("kernel module {name} is not loaded", name=name),
        say("the host of this container has no driver")
        if inside
        else say("the driver is not installed for this kernel, {kernel}", kernel=patient.machine.kernel),
        *(patient.needs.driver.install or (f"sudo modprobe {name}",)),
        advice=patient.needs.driver.advice,
        source=source,
        missing=Missing.DRIVER,
    )
