"""Is a card on the PCI bus at all? If not, no software mends it."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Missing, Result, failed, passed, skipped, unverified

_ACCELERATOR_CLASSES = ("0x12", "0x0302", "0x0300", "0x0380")
"""Processing accelerators, 3D and display controllers (PCI code and ID assignment specification)."""


@check("driver.pci", rank=1, side="host", title=say_in("check", "cards on the PCI bus"), needs_card=True)
def driver_pci(context: CheckContext) -> Iterator[Result]:
    """Count the devices of the vendor that are accelerators."""
    host, driver = context.host, context.requirements.driver
    if not driver.pci_vendor:
        yield unverified(say("the vendor's PCI ID"))
        return
    devices = host.find("/sys/bus/pci/devices/*")
    if not devices:
        yield skipped(say("/sys/bus/pci/devices is empty, so the PCI bus is not visible"))
        return
    card_paths = [path for path in devices if is_card(context, path)]
    if card_paths:
        names = ", ".join(path.rpartition("/")[2] for path in card_paths)
        found = say_plural(
            "{count} card on the PCI bus: {names}",
            "{count} cards on the PCI bus: {names}",
            count=len(card_paths),
            names=names,
        )
        yield passed(found, source=driver.source)
        return
    yield failed(
        say("no card of vendor {vendor} is on the PCI bus", vendor=driver.pci_vendor),
        say(
            "the host has no such card, the card is badly seated or has no power, or it is not passed to "
            "this virtual machine"
        ),
        f"lspci -nn -d {driver.pci_vendor.removeprefix('0x')}:",
        "sudo dmesg | grep -i pci | tail -n 30",
        advice=say("enable `Above 4G Decoding` in the firmware of the host"),
        source=driver.source,
        missing=Missing.CARD,
    )


def is_card(context: CheckContext, path: str) -> bool:
    """Whether a device of the PCI bus is one of the target's cards."""
    host, driver = context.host, context.requirements.driver
    if (host.read(f"{path}/vendor") or "").strip() != driver.pci_vendor:
        return False
    if (host.read(f"{path}/device") or "").strip() in driver.pci_devices:
        return True
    return (host.read(f"{path}/class") or "").startswith(_ACCELERATOR_CLASSES)
