"""A tensor type of CUDA: `torch.cuda.FloatTensor`, or its name as a string.

Such types construct tensors, convert them (`x.type(torch.cuda.HalfTensor)`), name the default tensor type, and are
compared with what `x.type()` returns: on the target that string begins with another word, so the comparison is
silently false. Where the plugin has the type, the name changes; where it has not, write the device and the dtype:
`torch.zeros(n, dtype=torch.float32, device=...)`.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext
from torchferry.rules.device.strings import literal_span, word_edits
from torchferry.rules.keeping import reason_to_keep
from torchferry.rules.references import CUDA_NAMES, ReferenceRule, missing, replaced
from torchferry.source.lexicon import TENSOR_TYPE_SPELLING


class CudaTensorType(ReferenceRule):
    """Finds tensor types of CUDA, as names and as strings."""

    CODE = "DEV105"
    CHINESE = """CUDA 的张量类型：`torch.cuda.FloatTensor`，或以字符串书写的名称。

这类类型用于构造张量、转换张量（`x.type(torch.cuda.HalfTensor)`）、指定默认张量类型，也会与 `x.type()` 的返回值比较：
在目标平台上该字符串开头不同，比较静默为假。插件有此类型时改名；没有时请写明设备与 dtype：
`torch.zeros(n, dtype=torch.float32, device=...)`。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("tensor",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use and each string."""
        yield from super().check_python(context)
        for node in context.file.strings:
            if not isinstance(node.value, str) or not TENSOR_TYPE_SPELLING.match(node.value):
                continue
            row = context.target.api(node.value)
            span = literal_span(context, node)
            kept = reason_to_keep(context, node)
            if kept is not None:
                message = say("`{found}` is left as it is: {reason}", found=node.value, reason=kept)
                yield self.finding(context, span, message, Grade.NOTE)
            elif row.status in REWRITTEN and row.use:
                try:
                    edits = word_edits(context, node, node.value, row.use)
                except ValueError:
                    edits = []
                grade = Grade.SAFE if edits else Grade.MANUAL
                yield self.finding(context, span, replaced(context, node.value, row), grade, edits)
            else:
                message = missing(context, node.value, row)
                yield self.finding(context, span, message, Grade.MANUAL)
