"""A use of TunableOp or of GPUDirect Storage.

`torch.cuda.tunable.*` tunes matrix products on CUDA and ROCm; `torch.cuda.gds.*` reads files straight into the
memory of an NVIDIA card. Both only make a program faster: without them it is right.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaTuning(ReferenceRule):
    """Finds uses of TunableOp and GPUDirect Storage."""

    CODE = "CUD105"
    CHINESE = """TunableOp：CUDA 矩阵乘的调优。

它调优 cuBLAS 与 hipBLASLt，在目标平台上没有意义；删除调用不影响结果。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("tuning", "storage_direct")
