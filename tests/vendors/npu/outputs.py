"""Outputs of tools and failures, recorded with Ascend cards."""

from __future__ import annotations

from torchferry.backends.smi import SmiCard, SmiOutput

# vllm-project/vllm-ascend issue 198 (910B3, 23.0.7); the process table as in its issue 12980
NPU_910B = """
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.7                   Version: 23.0.7                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 102.8       55                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3338 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | OK            | 97.6        54                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3337 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""

# the same form with a busy, a hot and a sick card (fields of the listing above, changed)
NPU_SICK = (
    NPU_910B.replace("3338 / 65536", "60001/ 65536")
    .replace("| 97.6        54 ", "| 97.6        96 ")
    .replace("| 1     910B3               | OK     ", "| 1     910B3               | Warning")
    .replace(
        "| No running processes found in NPU 0                                                            |",
        "| 0       0                 | 632268        | python3.1                | 59197                   |",
    )
)

# vllm-project/vllm-ascend issues 2534 and 12980: two chips a card
NPU_910C = """
| npu-smi 25.2.0                   Version: 25.2.0                                               |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 7     Ascend910           | OK            | 178.5       36                0    / 0             |
| 0     14                  | 0000:9D:00.0  | 0           0    / 0          3416 / 65536         |
+------------------------------------------------------------------------------------------------+
| 7     Ascend910           | OK            | -           35                0    / 0             |
| 1     15                  | 0000:83:00.0  | 0           0    / 0          31877/ 65536         |
"""

# public notes of npu-smi 23.0.0 on 310P3: no HBM column
NPU_310P = """
| npu-smi 23.0.0                                   Version: 23.0.0                                       |
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 24      310P3                 | OK              | NA           29                0     / 0             |
| 0       0                     | 0000:04:00.0    | 0            1832 / 21527                            |
"""

# hiascend.com npu-smi reference: npu-smi info -t ecc -i 0
NPU_ECC = """
        NPU ID                                   : 0
        HBM Single Bit Error Count               : 0
        HBM Double Bit Error Count               : 0
        HBM Single Bit Aggregate Total Err Cnt   : 0
        HBM Double Bit Aggregate Total Err Cnt   : 0
"""

# public reports of driver 25.5.2, as an ordinary user
NPU_DENIED = "DrvMngGetConsoleLogLevel failed. (ret=4)\ndcmi module initialize failed. ret is -8005\n"

# pytorch/pytorch issue 135013: torch 2.4.0 with NumPy 2.1.0 (excerpt)
NUMPY_2 = """
A module that was compiled using NumPy 1.x cannot be run in
NumPy 2.1.0 as it may crash. To support both 1.x and 2.x
versions of NumPy, modules must be compiled with NumPy 2.0.
AttributeError: _ARRAY_API not found
ImportError: numpy.core.multiarray failed to import
"""

# pyg-team/pyg-lib issue 548: the loader's text on Ubuntu 20.04
GLIBC_OLD = (
    "OSError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.33' not found (required by "
    "/home/ee615/anaconda3/envs/qcnet/lib/python3.10/site-packages/libpyg.so)"
)

# pytorch/pytorch issue 87279: the C++ library of the system is older than conda's
GLIBCXX_OLD = (
    "ImportError: /usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by "
    "/home/mia/lib/python3.10/site-packages/torch/lib/libtorch_python.so)"
)

# AmpereComputingAI/ampere_model_library pull request 161: torch on aarch64
STATIC_TLS = (
    "OSError: /root/miniforge3/envs/tensorflow/lib/python3.8/site-packages/torch/lib/libgomp-d22c30c5.so.1: "
    "cannot allocate memory in static TLS block"
)

# Ascend/pytorch issue 29: GEInitialize (excerpt, without the times)
TBE_MISSING = """
[ERROR] TUNE(2440326,python): [pywrapper.cpp:94][CANNKB]"ModuleNotFoundError: No module named 'tbe.common'
"
[ERROR] TEFUSION(2440326,python): [fusion_manager.cc:660] InitCannKB call CannKbInit failed. res = [3].
"""

# hiyouga/LlamaFactory issue 10333, flagos-ai/FlagGems pull request 5707: CANN without one of its packages
DECORATOR_MISSING = "ModuleNotFoundError: No module named 'decorator'\nerror code is 500001\n"


READINGS = {
    "NPU_910B": SmiOutput(
        "npu-smi info",
        "23.0.7",
        "23.0.7",
        (SmiCard("0", "910B3", "OK", 55.0, 3338, 65536, "0"), SmiCard("1", "910B3", "OK", 54.0, 3337, 65536, "0")),
    ),
    "NPU_910C": SmiOutput(
        "npu-smi info",
        "25.2.0",
        "25.2.0",
        (
            SmiCard("7", "Ascend910", "OK", 36.0, 3416, 65536, "0"),
            SmiCard("7.1", "Ascend910", "OK", 35.0, 31877, 65536, "0"),
        ),
    ),
    "NPU_310P": SmiOutput("npu-smi info", "23.0.0", "23.0.0", (SmiCard("24", "310P3", "OK", 29.0, 1832, 21527, "0"),)),
}
"""What the tool's reader makes of the outputs, by their names here."""
