"""Recorded machines with Enflame T20 cards, and what the checks of the doctor say of them."""

from __future__ import annotations

from tests.doctor.recorded import INSIDE, Case, companions, python, tool
from tests.vendors.ptex.outputs import T20

IPC = "/proc/self/ns/ipc"


def t20(torch: str = "1.10.0", gcu: str = "1.10.0", ptex: str = "1.3.20") -> dict[str, object]:
    """Return an interpreter that has the two distributions of the T20's plugin."""
    return python(
        modules={"torch": "/t", "torch_gcu": "/g", "ptex": "/p"},
        distributions={"torch": torch, "torch-gcu": gcu, "ptex": ptex},
        torch={"version": torch, "cuda": None, "hip": None},
    )


CASES = [
    Case("driver.module", "ptex", (("ok", "enflame is loaded"),), {"/sys/module/enflame/version": "2.4\n"}),
    Case("driver.module", "ptex", (("failure", "enflame is not loaded"),)),
    Case("tool.present", "ptex", (("ok", "1.20.0 shows 2 devices"),), machine=tool("efsmi", T20)),
    Case("card.memory", "ptex", (("unknown", "card 0"), ("unknown", "card 1")), machine=tool("efsmi", T20)),
    Case("library.collective", "ptex", (("failure", "libeccl.so is missing"),)),
    Case(
        "container.privileges",
        "ptex",
        (("ok", "is privileged"),),
        {**INSIDE, "/proc/sys/kernel/cap_last_cap": "40\n", "/proc/self/status": "CapBnd:\t000001ffffffffff\n"},
    ),
    Case(
        "container.privileges",
        "ptex",
        (("warning", "is not privileged"),),
        {**INSIDE, "/proc/sys/kernel/cap_last_cap": "40\n", "/proc/self/status": "CapBnd:\t00000000a80425fb\n"},
    ),
    Case(
        "container.network",
        "ptex",
        (("warning", "its own network"),),
        {**INSIDE, "/sys/class/net/eth0/ifindex": "12\n", "/sys/class/net/eth0/iflink": "13\n"},
    ),
    Case(
        "container.network",
        "ptex",
        (("ok", "host's network"),),
        {**INSIDE, "/sys/class/net/eth0/ifindex": "2\n", "/sys/class/net/eth0/iflink": "2\n"},
    ),
    Case(
        "container.ipc", "ptex", (("ok", "host's IPC namespace"),), INSIDE, machine={"links": {IPC: "ipc:[4026531839]"}}
    ),
    Case(
        "container.ipc",
        "ptex",
        (("warning", "its own IPC namespace"),),
        INSIDE,
        machine={"links": {IPC: "ipc:[4026532177]"}},
    ),
    Case("container.ipc", "ptex", (("unknown", "cannot read /proc/self/ns/ipc"),), INSIDE),
    Case("container.ipc", "ptex", (("skipped", "no container"),)),
    Case(
        "python.plugin",  # T20 deployment manual, stage 3 step 6 and 6.6: the wheel lies there and was not installed
        "ptex",
        (("failure", "ptex is on this machine but not installed"), ("failure", "torch_gcu is not installed")),
        {"/usr/local/topsrider/ai_development_toolkit/pytorch-gcu/ptex-2.1.0+torch1.11.0-py3-none-any.whl": ""},
    ),
    Case(  # the T20 stack as users documented it: TopsRider t2x 2.5.136
        "python.versions",
        "ptex",
        (("ok", "torch 1.10.0 and torch_gcu 1.10.0 belong"), ("ok", "torch 1.10.0 and ptex 1.3.20 belong")),
        machine=t20(),
    ),
    Case(  # T20 deployment manual, stage 3 step 6 and stage 5 step 4
        "python.versions",
        "ptex",
        (
            ("ok", "torch_gcu 1.10.0+2.5.136"),
            ("unknown", "nobody has verified ptex 2.1.0+torch1.11.0 with torch 1.10.0"),
        ),
        machine=t20(gcu="1.10.0+2.5.136", ptex="2.1.0+torch1.11.0"),
    ),
    Case(  # T20 deployment manual, stage 5 step 4: a script of the project replaced torch
        "python.versions",
        "ptex",
        (
            ("failure", "torch_gcu 1.10.0 is for torch 1.10.0, but torch 1.13.1 is installed"),
            ("failure", "ptex 1.3.20 is for torch 1.10.0"),
        ),
        machine=t20("1.13.1+cu117"),
    ),
    Case(
        "python.versions",
        "ptex",
        (("ok", "torch_gcu"), ("unknown", "torch 1.10.0 with ptex 9.9 is not in the vendor's table")),
        machine=t20(ptex="9.9"),
    ),
    Case("python.versions", "ptex", (("skipped", "missing"),), machine=t20(gcu="", ptex="")),
    Case(  # T20 deployment manual, stage 5 step 4: a script of the project replaced torchvision
        "python.companions",
        "ptex",
        (("warning", "torchvision 0.14.1 is installed, but torch 1.10.0 needs 0.11.1"),),
        machine=companions("1.10.0", torchvision="0.14.1"),
    ),
]
