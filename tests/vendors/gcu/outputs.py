"""Outputs of tools and failures, recorded with Enflame cards."""

from __future__ import annotations

from torchferry.backends.smi import SmiCard, SmiOutput

# zstack-utility, plugin for Enflame cards: efsmi -q of driver 1.4.3.4 on S60
GCU_Q = """
--------------------- Enflame System Management Interface ---------------------
DEV ID 0
    Driver Info
        Ver                     : 1.4.3.4
    Device Info
        Dev Name                : S60
        Health                  : True
    PCIe Info
        Bus                     : 17
        Dev                     : 00
    Device Mem Info
        Total Size              : 42976 MiB
        Reserved Size           : 1129 MiB
        Used Size               : 0 MiB
        Free Size               : 41846 MiB
    Temperature Info
        GCU Temp                : 35 \u2103
    Device Usage Info
        GCU Usage               : 0.0 %
    ECC Mode
        Current                 : Enable
        Pending                 : Enable
    RMA Info
        Flags                   : False
        Total DBE               : 0
"""

# PaddlePaddle documents for GCU (efsmi 1.2.0 on S60); FlagTree documents (1.6.3 on S60G)
GCU_TABLE = """
+2024-12-06, 11:33:56 CST--------------------------------------------------+
|EFSMI    V1.2.0.301       Driver Ver: 1.2.0.301                           |
|--------------------------------------------------------------------------|
| DEV    NAME                | FW VER          | BUS-ID      ECC           |
| TEMP   Dpm   Pwr(Usage/Cap)| Mem     GCU Virt| DUsed       SN            |
|--------------------------------------------------------------------------|
| 0      S60                 | 33.6.2          | 00:01:00.0  Disable       |
| 39 C   Sleep    105W  300W | 49120MiB Disable|   0.0%      A073640510015 |
| 1      Enflame S60G         | 31.5.3            | 00:2e:00.0  Disable       |
| 34\u2103    LP0      N/A         | 23552MiB  SRIOV   | 0%          A018K30520031 |
"""


READINGS = {
    "GCU_Q": SmiOutput("efsmi -q", "", "1.4.3.4", (SmiCard("0", "S60", "True", 35.0, 0, 42976, "0.0", "Enable", 0),)),
    "GCU_TABLE": SmiOutput(
        "efsmi",
        "1.2.0.301",
        "1.2.0.301",
        (
            SmiCard("0", "S60", None, 39.0, None, 49120, None, "Disable"),
            SmiCard("1", "Enflame S60G", None, 34.0, None, 23552, None, "Disable"),
        ),
    ),
}
"""What the tool's reader makes of the outputs, by their names here."""
