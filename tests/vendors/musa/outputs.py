"""Outputs of tools and failures, recorded with Moore Threads cards."""

from __future__ import annotations

from torchferry.backends.smi import Holder, SmiCard, SmiOutput

# docs.gpustack.ai, running inference with Moore Threads GPUs: mthreads-gmi 1.14.0
MUSA_S80 = """Sat Nov 16 12:00:16 2024
---------------------------------------------------------------
    mthreads-gmi:1.14.0          Driver Version:2.7.0
---------------------------------------------------------------
ID   Name           |PCIe                |%GPU  Mem
     Device Type    |Pcie Lane Width     |Temp  MPC Capable
                                         |      ECC Mode
+-------------------------------------------------------------+
0    MTT S80        |00000000:01:00.0    |98%   1339MiB(16384MiB)
     Physical       |16x(16x)            |56C   YES
                                         |      N/A
---------------------------------------------------------------

---------------------------------------------------------------
Processes:
ID   PID       Process name                         GPU Memory
                                                         Usage
+-------------------------------------------------------------+
0    120       ...ird_party/bin/llama-box/llama-box       2MiB
0    2022      ...ird_party/bin/llama-box/llama-box    1333MiB
---------------------------------------------------------------
"""

# MTTransformer FAQ: an S4000 that shows 32 of its 48 GiB, because the IOMMU is off
MUSA_S4000_SHORT = """
    mthreads-gmi:1.12.2          Driver Version:1.2.0
ID   Name           |PCIe                |%GPU  Mem
+-------------------------------------------------------------+
0    MTT S4000      |00000000:08:00.0    |88%   44302MiB(32768MiB)
     Physical       |16x(16x)            |65C   YES
                                         |      N/A
"""

# vllm-project/vllm-omni pull request 2337: mthreads-gmi 2.3.2 on S5000
MUSA_S5000 = """
    mthreads-gmi:2.3.2           Driver Version:3.3.5-server
ID   Name                 |PCIe                |%GPU  Mem
     Device Type   Perf   |Pcie Lane Width     |Temp  MPC Capable
                                               |      ECC Mode
+-------------------------------------------------------------------+
0    MTT S5000            |00000000:2a:00.0    |0%    66641MiB(81920MiB)
     Physical      P0     |16x(16x)            |52C   YES
                                               |      On-die, EDC
+-------------------------------------------------------------------+
1    MTT S5000            |00000000:3a:00.0    |0%    10MiB(81920MiB)
     Physical      P0     |16x(16x)            |51C   YES
                                               |      On-die, EDC
"""

# torch_musa developer manual 11.1
MUSA_DENIED = "Error: failed to initialize mtml.\n"


READINGS = {
    "MUSA_S80": SmiOutput(
        "mthreads-gmi",
        "1.14.0",
        "2.7.0",
        (SmiCard("0", "MTT S80", None, 56.0, 1339, 16384, "98%", "N/A"),),
        (
            Holder("0", 120, "...ird_party/bin/llama-box/llama-box", 2),
            Holder("0", 2022, "...ird_party/bin/llama-box/llama-box", 1333),
        ),
    ),
    "MUSA_S5000": SmiOutput(
        "mthreads-gmi",
        "2.3.2",
        "3.3.5-server",
        (
            SmiCard("0", "MTT S5000", None, 52.0, 66641, 81920, "0%", "On-die, EDC"),
            SmiCard("1", "MTT S5000", None, 51.0, 10, 81920, "0%", "On-die, EDC"),
        ),
    ),
}
"""What the tool's reader makes of the outputs, by their names here."""
