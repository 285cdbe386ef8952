"""Outputs of the vendors' tools, retyped in excerpts from public places, each with where it was seen."""

from __future__ import annotations

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

# Tecorigin model adaptation guide (2024)
SDAA_T100 = """
Wed Jun  5 02:46:48 2024
+-----------------------------------------------------------------------------+
|  TCML: 1.10.0        SDAADriver: 1.1.2b1        SDAARuntime: 1.1.2b0        |
|-------------------------------+----------------------+----------------------|
| Index  Name                   | Bus-Id               | Health      Volatile |
|        Temp          Pwr Usage|          Memory-Usage|             SPE-Util |
|=============================================================================|
|   0    TECO_AICARD_01         | 00000000:01:00.0     | OK                   |
|        35C                90W |        0MB / 15296MB |                   0% |
|-------------------------------+----------------------+----------------------|
|   1    TECO_AICARD_01         | 00000000:01:00.0     | OK                   |
|        35C                90W |      165MB / 15296MB |                   0% |
+-------------------------------+----------------------+----------------------+
| Processes:                                                                  |
|  Tcaicard     PID      Process name                            Memory Usage |
|=============================================================================|
|     1       76262      python3.8                                     165 MB |
+-----------------------------------------------------------------------------+
"""

# public installation notes of driver 3.2.1 (2026): the next layout of the table
SDAA_115 = """
|  TECO-SMI: 1.15.0        SDAADriver: 3.2.0        SDAARuntime: 3.2.0        |
| Index  Name                   | Bus-Id               | Health      SPE-Util |
|        Temp          Pwr Usage|          Memory-Usage|                      |
|=============================================================================|
|   0    TECO_AICARD_01         | 00000000:0C:00.0     | OK                0% |
|        40C                90W |        0MB / 65536MB |                      |
|   1    TECO_AICARD_01         | 00000000:10:00.0     | OK                0% |
|        38C                88W |        0MB / 65536MB |                      |
| No Process Running                                                          |
"""

# teco-modelzoo FAQ 6: `Volatile SPE-Util` N/A means that the card is gone
SDAA_LOST = SDAA_T100.replace("165MB / 15296MB |                   0% |", "165MB / 15296MB |                  N/A |")

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

# a public parser of efsmi 1.20.0 with a listing of two T20 cards (2023)
T20 = """
*Sat Oct  7 15:54:28 2023-------------------------------------------------*
*EFSMI    V1.20.0          Driver Ver: 2.4.20230829                       *
*-------------------------------------------------------------------------*
* DEV    NAME                | FW VER          | BUS-ID     ECC           *
* TEMP   DPM   Pwr(Usage/Cap)| Mem         vGCU| DEV-Util   UUID          *
*-------------------------------------------------------------------------*
* 0      T20                 | 10.19.3         | 00:3d:0.0  Enable        *
* 30C    Sleep   48.0W  300W | 32G      Disable|   0.0%     W28001210504  *
*-------------------------------------------------------------------------*
* 1      T20                 | 10.19.3         | 00:3e:0.0  Enable        *
* 30C    Sleep   48.0W  300W | 32G      Disable|   0.0%     W28001010604  *
"""

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
