"""Recorded machines with Enflame cards, and what the checks of the doctor say of them."""

from __future__ import annotations

from tests.doctor.recorded import INSIDE, Case, node, steps, tool, variables
from tests.vendors.gcu.outputs import GCU_Q, GCU_TABLE

CASES = [
    Case("driver.version", "gcu", (("ok", "driver 1.6.3.12"),), {"/sys/module/enflame/version": "1.6.3.12\n"}),
    Case("tool.present", "gcu", (("ok", "shows 1 device"),), machine=tool("efsmi -q", GCU_Q)),
    Case(
        "tool.present", "gcu", (("ok", "shows 2 devices"),), machine={"outputs": {"efsmi -q": "?", "efsmi": GCU_TABLE}}
    ),
    Case("card.health", "gcu", (("ok", "reports True for 1 card"),), machine=tool("efsmi -q", GCU_Q)),
    Case(
        "card.health",
        "gcu",
        (("failure", "reports False"),),
        machine=tool("efsmi -q", GCU_Q.replace("Health                  : True", "Health : False")),
    ),
    Case("card.memory_errors", "gcu", (("ok", "no uncorrectable memory errors"),), machine=tool("efsmi -q", GCU_Q)),
    Case(
        "card.memory_errors",
        "gcu",
        (("failure", "card 0: 2"),),
        machine=tool("efsmi -q", GCU_Q.replace("Total DBE               : 0", "Total DBE               : 2")),
    ),
    Case(
        "card.memory_errors",
        "gcu",
        (("warning", "ECC is off"), ("warning", "ECC is off"), ("unknown", "nobody")),
        machine={"outputs": {"efsmi -q": "", "efsmi": GCU_TABLE}},
    ),
    Case(  # the tool names no process: who has the card open is looked for
        "card.memory",
        "gcu",
        (("warning", "card 0: 40000 of 42976 MiB"),),
        {"/proc/4711/comm": "python3\n", "/proc/4711/fd/5": "", "/proc/12/fd/0": ""},
        machine={
            **tool("efsmi -q", GCU_Q.replace("Used Size               : 0 ", "Used Size : 40000 ")),
            "nodes": {"/dev/gcu0": node("/dev/gcu0")},
            "links": {"/proc/4711/fd/5": "/dev/gcu0", "/proc/12/fd/0": "/dev/null"},
        },
    ),
    # the tool's figure is compared with the tool's: 42,976 MiB with ECC, 49,120 without; a program gets 41,846
    Case("card.memory_size", "gcu", (("ok", "every card"),), machine=tool("efsmi -q", GCU_Q)),
    Case(
        "card.memory_size",
        "gcu",
        (("failure", "shows 34000 MiB instead of 49120"),),
        machine=tool("efsmi -q", GCU_Q.replace(": 42976 MiB", ": 34000 MiB")),
    ),
    Case(
        "environment.visible_devices",
        "gcu",
        (("warning", "TOPS_VISIBLE_DEVICES is 1, but ENFLAME_VISIBLE_DEVICES passes 0"),),
        INSIDE,
        machine=variables(TOPS_VISIBLE_DEVICES="1", ENFLAME_VISIBLE_DEVICES="0"),
    ),
    Case(  # privileged: more is here than the variable passes in
        "environment.visible_devices",
        "gcu",
        (("ok", "TOPS_VISIBLE_DEVICES is 1"),),
        INSIDE,
        machine={
            **variables(TOPS_VISIBLE_DEVICES="1", ENFLAME_VISIBLE_DEVICES="0"),
            "nodes": {f"/dev/gcu{index}": node(f"/dev/gcu{index}") for index in range(2)},
        },
    ),
    Case("python.toolkit", "gcu", (("skipped", "not known to need Python packages"),)),
    Case(
        "probe.dtypes",
        "gcu",
        (("warning", "int64 does not work"),),
        probe=steps({"step": "dtype", "part": "int64", "error": "narrowed"}),
    ),
]
