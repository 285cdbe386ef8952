"""Is the IOMMU on, where the cards need it? Without it memory is short or a container sees no device."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.checks.driver_pci import is_card
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, warned


@check("driver.iommu", rank=5, side="host", title=say_in("check", "IOMMU"), needs_card=True)
def driver_iommu(context: CheckContext) -> Iterator[Result]:
    """Look for IOMMU groups: the kernel makes them when it is on."""
    host, driver = context.host, context.requirements.driver
    if driver.iommu is None:
        yield skipped(say("these cards are not known to need the IOMMU"))
        return
    if host.find("/sys/kernel/iommu_groups/*"):
        yield passed(say("the IOMMU is on"), source=driver.source)
        return
    if not any(is_card(context, path) for path in host.find("/sys/bus/pci/devices/*")):
        yield skipped(say("there is no card on the PCI bus; see driver.pci"))
        return
    amd = "AuthenticAMD" in (host.read("/proc/cpuinfo") or "") or "HygonGenuine" in (host.read("/proc/cpuinfo") or "")
    option = "amd_iommu=on" if amd else "intel_iommu=on"
    yield warned(
        say("the IOMMU is off"),
        driver.iommu,
        f"sudo sed -i.before 's/^GRUB_CMDLINE_LINUX_DEFAULT=\"/&{option} /' /etc/default/grub",
        "sudo update-grub && sudo reboot",
        advice=say("also enable the IOMMU in the firmware of the host (VT-d or AMD-Vi)"),
        source=driver.source,
    )
