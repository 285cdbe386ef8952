"""Double precision, on a card that does not have it.

`torch.float64`, `torch.double`, `.double()`: some cards lack 64-bit arithmetic, and their plugins then refuse it,
compute it slowly, or compute it in 32 bits and say nothing. Where the last digits matter, do that part on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Finding
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.dtype._uses import dtype_findings


class Float64Used(Rule):
    """Finds the first use of float64 in a file."""

    CODE = "DTY101"
    CHINESE = """在没有双精度的卡上使用双精度。

`torch.float64`、`torch.double`、`.double()`：有些卡没有 64 位运算，其插件会拒绝、变慢，或不加提示地按 32 位计算。
末位数字重要时，请在 CPU 上做这一部分。
"""
    WORDS = ("float64", "double", "DoubleTensor")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target whose float64 behaves as on CUDA."""
        return self.WORDS if "float64" in target.backend.DTYPES else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield at most one finding."""
        names = frozenset({"torch.float64", "torch.double", "torch.DoubleTensor", "torch.cuda.DoubleTensor"})
        return dtype_findings(self, context, "float64", names, ("double",))
