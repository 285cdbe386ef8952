"""Was the kernel updated after the driver was built? A driver without DKMS is then gone, although it is installed."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, skipped, unverified, warned


@check("driver.kernel", rank=3, side="host", title=say_in("check", "driver and kernel"), needs_card=True)
def driver_kernel(context: CheckContext) -> Iterator[Result]:
    """Look for the module below /lib/modules, for this kernel and for others."""
    host = context.host
    name = context.target.backend.DRIVER_MODULE
    if isinstance(name, Unknown):
        yield unverified(say("the name of the driver's kernel module"))
        return
    kernels = context.kernels_with_driver
    if host.kernel in kernels:
        yield passed(say("the driver is built for this kernel, {kernel}", kernel=host.kernel))
    elif not kernels:
        yield skipped(say("the driver is installed for no kernel of this machine; see driver.module"))
    elif context.driver_loaded:
        yield warned(
            say("the driver is loaded, but /lib/modules/{kernel} has no file of it", kernel=host.kernel),
            say("the driver may be missing after the next restart"),
            f"modinfo {name}",
            advice=context.requirements.driver.advice,
        )
    else:
        yield failed(
            say(
                "the driver is built for kernel {kernels}, but {kernel} is running",
                kernels=", ".join(kernels),
                kernel=host.kernel,
            ),
            say("the kernel was updated after the driver was installed"),
            f"sudo apt-get install linux-headers-{host.kernel}  # or kernel-devel-{host.kernel}",
            *context.requirements.driver.install,
            advice=context.requirements.driver.advice,
            source=context.requirements.driver.source,
        )
