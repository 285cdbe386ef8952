"""Is the driver's kernel module loaded? Without it there are no device nodes and no cards."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Missing, Result, failed, passed, skipped, unverified


@check("driver.module", rank=2, side="host", title=say_in("check", "driver module"), needs_card=True)
def driver_module(context: CheckContext) -> Iterator[Result]:
    """Compare /proc/modules and /sys/module with the driver's name."""
    name = context.target.backend.DRIVER_MODULE
    if isinstance(name, Unknown):
        yield unverified(say("the name of the driver's kernel module"))
        return
    source = context.target.backend.source_of("DRIVER_MODULE")
    if context.driver_loaded:
        yield passed(say("kernel module {name} is loaded", name=name), source=source)
        return
    if context.host.read("/proc/modules") is None:
        yield skipped(say("/proc/modules cannot be read, so loaded kernel modules are not visible"))
        return
    inside = container_info(context.host).evidence
    if context.host.kernel in context.kernels_with_driver:
        yield failed(
            say("kernel module {name} is not loaded", name=name),
            say("the module is built for this kernel but not loaded"),
            f"sudo modprobe {name}",
            "sudo dmesg | tail -n 30",
            source=source,
            missing=Missing.DRIVER,
        )
        return
    yield failed(
        say("kernel module {name} is not loaded", name=name),
        say("the host of this container has not loaded the driver")
        if inside
        else say("the driver is not installed for this kernel, {kernel}", kernel=context.host.kernel),
        *(context.requirements.driver.install or (f"sudo modprobe {name}",)),
        advice=context.requirements.driver.advice,
        source=source,
        missing=Missing.DRIVER,
    )
