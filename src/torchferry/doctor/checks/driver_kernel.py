"""Was the kernel updated after the driver was built? A driver without DKMS is then gone, although it is installed."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed, skipped, unverified, warned

CODE = "driver.kernel"
RANK = 3
SIDE = "host"
TITLE = say_in("check", "driver and kernel")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Look for the module below /lib/modules, for this kernel and for others."""
    machine = patient.machine
    name = patient.target.backend.DRIVER_MODULE
    if isinstance(name, Unknown):
        yield unverified(say("the name of the driver's kernel module"))
        return
    kernels = patient.kernels_with_driver
    if machine.kernel in kernels:
        yield passed(say("the driver is built for this kernel, {kernel}", kernel=machine.kernel))
    elif not kernels:
        yield skipped(say("no kernel here has the driver; see driver.module"))
    elif patient.driver_loaded:
        yield warned(
            say("the driver runs, but its file is not among those of this kernel, {kernel}", kernel=machine.kernel),
            say("after the next start it may be gone"),
            f"modinfo {name}",
            advice=patient.needs.driver.advice,
        )
    else:
        yield failed(
            say(
                "the driver is built for kernel {kernels}, and {kernel} runs",
                kernels=", ".join(kernels),
                kernel=machine.kernel,
            ),
            say("the kernel was updated after the driver was installed"),
            f"sudo apt-get install linux-headers-{machine.kernel}  # or kernel-devel-{machine.kernel}",
            *patient.needs.driver.install,
            advice=patient.needs.driver.advice,
            source=patient.needs.driver.source,
        )
