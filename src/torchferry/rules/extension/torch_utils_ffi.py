"""An extension of C for `torch.utils.ffi`, which torch has not had since 1.0.

No torch that a target's plugin takes can build or load it. Write it anew with `torch.utils.cpp_extension`, and port its
CUDA kernels; or use what has come into torch and torchvision since (`torchvision.ops.roi_align`, `nms`).
Tests of `torch.cuda.is_available()` in its build script, and of `.is_cuda` in front of its kernels, stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.guarded import Guard, guard_of


class TorchUtilsFfi(Rule):
    """Finds imports of `torch.utils.ffi`."""

    CODE = "EXT106"
    CHINESE = """使用 `torch.utils.ffi` 的 C 扩展，torch 自 1.0 起已移除该模块。

目标平台插件支持的任何 torch 都不能构建或加载它。请用 `torch.utils.cpp_extension` 重写，并移植其 CUDA
核函数；或使用后来进入 torch 与 torchvision 的实现（`torchvision.ops.roi_align`、`nms`）。
其构建脚本中对 `torch.cuda.is_available()` 的判断，
以及核函数前对 `.is_cuda` 的判断，均保持原样。
"""
    WORDS = ("utils.ffi", "import ffi")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each import statement."""
        seen: set[ast.AST] = set()
        for reference in context.names.references("torch"):
            if not (reference.name + ".").startswith("torch.utils.ffi.") or not isinstance(reference.node, ast.alias):
                continue
            statement = context.file.parents[reference.node]
            if statement in seen:
                continue
            seen.add(statement)
            guard = guard_of(context.file, statement)
            message = say(
                "`torch.utils.ffi` is gone since torch 1.0: write the extension anew with `torch.utils.cpp_extension` "
                "and port its kernels to {target}",
                target=context.target.title,
            )
            grade = Grade.NOTE if guard is Guard.COPES else Grade.MANUAL
            span = context.file.span(statement)
            blocker = guard is Guard.NONE
            yield self.finding(context, span, message, grade, blocker=blocker, lacks="torch.utils.ffi")
