"""The old profiler told to measure CUDA: `torch.autograd.profiler.profile(use_cuda=True)`.

`use_cuda` measures nothing on the target. `use_device` takes the name of the device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, keyword_of
from torchferry.rules.device.expressions import device_type, portable_imports


class UseCuda(Rule):
    """Finds `use_cuda` given to torch's old profiler."""

    CODE = "PRF105"
    CHINESE = """要求旧分析器测量 CUDA：`torch.autograd.profiler.profile(use_cuda=True)`。

在目标平台上 `use_cuda` 什么也测不到。`use_device` 接受设备名称。
"""
    WORDS = ("use_cuda",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for reference in context.names.references("torch"):
            call = context.file.parents.get(reference.node)
            if reference.name not in ("torch.autograd.profiler.profile", "torch.profiler.profile"):
                continue
            if not isinstance(call, ast.Call) or call.func is not reference.node:
                continue
            keyword = keyword_of(call, "use_cuda")
            if keyword is None or (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
                continue
            device = device_type(context)
            message = say(
                "`use_cuda` measures CUDA; on {target} it is `use_device={device}`",
                target=context.target.title,
                device=device,
            )
            span = context.file.span(keyword)
            imports = portable_imports(context)
            if isinstance(keyword.value, ast.Constant):
                edit = Edit(*span, f"use_device={device}")
                yield self.finding(context, span, message, Grade.SAFE, [edit], imports=imports)
            else:
                text = context.file.text(keyword.value)
                edit = Edit(*span, f"use_device={device} if {text} else None")
                yield self.finding(context, span, message, Grade.UNSAFE, [edit], imports=imports)
