"""A call of `torch.load` that does not say where tensors go.

A checkpoint written on a CUDA machine names `cuda` inside. Without `map_location` torch tries to put its tensors
there, and raises on the target; no word in the source gives that away. A checkpoint that the migrated program
itself wrote loads as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule


class LoadWithoutMapLocation(Rule):
    """Finds `torch.load` without `map_location`."""

    CODE = "DEV107"
    CHINESE = """不指明位置而加载检查点。

`torch.load(path)` 把张量放回保存时的设备；CUDA 机器保存的文件在目标平台上加载会失败。请传入 `map_location="cpu"`
再搬到设备。
"""
    WORDS = ("torch.load", "import load")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a note for each call."""
        for reference in context.names.references("torch"):
            call = context.file.parents.get(reference.node)
            if reference.name not in ("torch.load", "torch.jit.load") or not isinstance(call, ast.Call):
                continue
            named = any(keyword.arg in ("map_location", None) for keyword in call.keywords)
            if call.func is not reference.node or len(call.args) > 1 or named:
                continue
            message = say(
                "`{name}` without `map_location` fails on a checkpoint from a CUDA machine; "
                'for such a file pass `map_location="cpu"`',
                name=reference.name,
            )
            yield self.finding(context, context.file.span(call), message, Grade.NOTE)
