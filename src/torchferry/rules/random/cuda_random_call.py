"""A seed or a generator state of the CUDA device.

`torch.cuda.manual_seed_all(seed)` does nothing on a torch without CUDA, so a run is not reproducible and nobody is
told. `get_rng_state()` raises. The same seed gives other numbers on another maker's card: compare distributions, or
draw on the CPU where two runs must be equal.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaRandomCall(ReferenceRule):
    """Finds random functions of `torch.cuda`."""

    CODE = "RNG101"
    CHINESE = """CUDA 设备的种子或随机数生成器状态。

没有 CUDA 时 `torch.cuda.manual_seed_all(seed)` 什么也不做，运行不可复现，也无人告知。`get_rng_state()` 会报错。
相同的种子在另一厂商的卡上给出不同的数：请比较分布，或在两次运行必须相同之处改在 CPU 上生成。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("random",)
