"""A graph captured on CUDA.

`torch.cuda.CUDAGraph`, `graph()`, `make_graphed_callables()`: the class has another name in every plugin, and some
plugins capture inference only, or nothing at all. Without capture the program is right, and slower by the launch
cost of its kernels.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaGraph(ReferenceRule):
    """Finds graph capture on CUDA."""

    CODE = "STR102"
    CHINESE = """在 CUDA 上捕获的图。

`torch.cuda.CUDAGraph`、`graph()`、`make_graphed_callables()`：各插件的类名不同，有的只能捕获推理，有的完全没有。
不捕获时程序仍然正确，只是慢了启动核函数的开销。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("graph",)
