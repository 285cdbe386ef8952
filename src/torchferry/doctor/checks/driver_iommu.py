"""Is the IOMMU on, where the cards need it? Without it memory is short or a container sees no device."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.checks.driver_pci import is_card
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, passed, skipped, warned

CODE = "driver.iommu"
RANK = 5
SIDE = "host"
TITLE = say_in("check", "IOMMU")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Look for IOMMU groups: the kernel makes them when it is on."""
    machine, driver = patient.machine, patient.needs.driver
    if driver.iommu is None:
        yield skipped(say("these cards are not known to need it"))
        return
    if machine.find("/sys/kernel/iommu_groups/*"):
        yield passed(say("the IOMMU is on"), source=driver.source)
        return
    if not any(is_card(patient, path) for path in machine.find("/sys/bus/pci/devices/*")):
        yield skipped(say("there is no card on the PCI bus; see driver.pci"))
        return
    amd = "AuthenticAMD" in (machine.read("/proc/cpuinfo") or "") or "HygonGenuine" in (
        machine.read("/proc/cpuinfo") or ""
    )
    option = "amd_iommu=on" if amd else "intel_iommu=on"
    yield warned(
        say("the IOMMU is off"),
        driver.iommu,
        f"sudo sed -i.before 's/^GRUB_CMDLINE_LINUX_DEFAULT=\"/&{option} /' /etc/default/grub",
        "sudo update-grub && sudo reboot",
        advice=say("also switch it on in the firmware of the host (VT-d or AMD-Vi)"),
        source=driver.source,
    )
