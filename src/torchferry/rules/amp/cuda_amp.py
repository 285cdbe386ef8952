"""Mixed precision by `torch.cuda.amp`.

`torch.cuda.amp.autocast()` and `GradScaler()` only warn on a torch without CUDA and are off: training goes on in
float32, or in float16 without scaling, until it diverges. The plugin's own classes take their place, arguments and
`enabled=False` blocks included.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaAmp(ReferenceRule):
    """Finds uses of `torch.cuda.amp`."""

    CODE = "AMP101"
    CHINESE = """`torch.cuda.amp` 中的自动混合精度。

`torch.cuda.amp.autocast`、`GradScaler`、`custom_fwd`、`custom_bwd`。没有 CUDA 时旧名称只会给出警告并
静默关闭：训练照常进行，但以 float32 计算。名称改为插件自己的模块。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("amp",)
