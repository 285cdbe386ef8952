"""Recorded machines with Tecorigin cards, and what the checks of the doctor say of them."""

from __future__ import annotations

from tests.doctor.recorded import INSIDE, OTHER_PCI, Case, tool, variables
from tests.vendors.sdaa.outputs import SDAA_115, SDAA_LOST, SDAA_T100
from torchferry.core.subprocesses import ProcessResult

CASES = [
    Case("driver.pci", "sdaa", (("unknown", "nobody has verified"),), OTHER_PCI),
    # beta releases of one version are one release; another number is another one
    Case("driver.version", "sdaa", (("ok", "driver 1.1.2b1"),), machine=tool("teco-smi", SDAA_T100)),
    Case("driver.version", "sdaa", (("ok", "driver 3.2.0"),), machine=tool("teco-smi", SDAA_115)),
    Case(
        "driver.version",
        "sdaa",
        (("warning", "the driver is 3.2.0, and the runtime is 3.3.0"),),
        machine=tool("teco-smi", SDAA_115.replace("SDAARuntime: 3.2.0", "SDAARuntime: 3.3.0")),
    ),
    Case("tool.present", "sdaa", (("ok", "1.10.0 shows 2 devices"),), machine=tool("teco-smi", SDAA_T100)),
    Case(
        "tool.present",
        "sdaa",
        (("failure", "was stopped"),),
        machine=tool("teco-smi", ProcessResult(None, problem="timeout")),
    ),
    Case("tool.present", "sdaa", (("unknown", "cannot read"),), machine=tool("teco-smi", "SMI 9 {new form}\n")),
    Case(
        "card.health", "sdaa", (("failure", "no longer on the bus"), ("ok", "OK")), machine=tool("teco-smi", SDAA_LOST)
    ),
    Case("sdk.environment", "sdaa", (("failure", "setvars.sh was not sourced"),), {"/opt/tecoai/setvars.sh": ""}),
    Case(  # a card of this vendor is four devices
        "environment.visible_devices",
        "sdaa",
        (("ok", "SDAA_VISIBLE_DEVICES is 3"),),
        INSIDE,
        machine=variables(SDAA_VISIBLE_DEVICES="3", TECO_VISIBLE_DEVICES="1"),
    ),
    Case(  # a line of this layout is a card with the memory of four devices
        "environment.visible_devices",
        "sdaa",
        (("ok", "SDAA_VISIBLE_DEVICES is 4,5,6,7"),),
        machine={**variables(SDAA_VISIBLE_DEVICES="4,5,6,7"), **tool("teco-smi", SDAA_115)},
    ),
    Case(
        "environment.visible_devices",
        "sdaa",
        (("failure", "names device 8, but there are 8"),),
        machine={**variables(SDAA_VISIBLE_DEVICES="8"), **tool("teco-smi", SDAA_115)},
    ),
]
