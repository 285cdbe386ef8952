"""Double precision, on a card that does not have it.

`torch.float64`, `torch.double`, `.double()`: some cards lack 64-bit arithmetic, and their plugins then refuse it,
compute it slowly, or compute it in 32 bits and say nothing. Where the last digits matter, do that part on the CPU.

Why: The plugin refuses the dtype, computes slowly, or silently computes in 32 bits.

References:
- page targets
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.dtype._uses import dtype_findings


class Float64Used(Rule):
    """Finds the first use of float64 in a file."""

    CODE = "DTY101"
    EFFECT = Effect.RAISES
    WORDS = ("float64", "double", "DoubleTensor")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target whose float64 behaves as on CUDA."""
        return self.WORDS if "float64" in target.backend.DTYPES else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield at most one finding."""
        names = frozenset({"torch.float64", "torch.double", "torch.DoubleTensor", "torch.cuda.DoubleTensor"})
        return dtype_findings(self, context, "float64", names, ("double",))
