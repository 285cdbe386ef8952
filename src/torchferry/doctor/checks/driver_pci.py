"""Is a card on the PCI bus at all? If not, no software mends it."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Missing, Result, failed, passed, skipped, unverified

CODE = "driver.pci"
RANK = 1
SIDE = "host"
TITLE = say_in("check", "cards on the PCI bus")
CARD = True

_ACCELERATOR_CLASSES = ("0x12", "0x0302", "0x0300", "0x0380")
"""Processing accelerators, 3D and display controllers (PCI code and ID assignment specification)."""


def check(patient: Patient) -> Iterator[Result]:
    """Count the devices of the vendor that are accelerators."""
    machine, driver = patient.machine, patient.needs.driver
    if not driver.pci_vendor:
        yield unverified(say("the vendor's number on the PCI bus"))
        return
    devices = machine.find("/sys/bus/pci/devices/*")
    if not devices:
        yield skipped(say("this system does not show its PCI bus"))
        return
    found = [path for path in devices if is_card(patient, path)]
    if found:
        names = ", ".join(path.rpartition("/")[2] for path in found)
        yield passed(say("{count} on the PCI bus: {names}", count=len(found), names=names), source=driver.source)
        return
    yield failed(
        say("no card of vendor {vendor} is on the PCI bus", vendor=driver.pci_vendor),
        say("the host has no such card, it sits badly or has no power, or it is not passed to this virtual machine"),
        f"lspci -nn -d {driver.pci_vendor.removeprefix('0x')}:",
        "sudo dmesg | grep -i pci | tail -n 30",
        advice=say("in the firmware of the host, switch `Above 4G Decoding` on"),
        source=driver.source,
        missing=Missing.CARD,
    )


def is_card(patient: Patient, path: str) -> bool:
    """Whether a device of the PCI bus is one of the target's cards."""
    machine, driver = patient.machine, patient.needs.driver
    if (machine.read(f"{path}/vendor") or "").strip() != driver.pci_vendor:
        return False
    if (machine.read(f"{path}/device") or "").strip() in driver.pci_devices:
        return True
    return (machine.read(f"{path}/class") or "").startswith(_ACCELERATOR_CLASSES)
