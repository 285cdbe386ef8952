"""bfloat16, on a card that does not have it.

`torch.bfloat16` and `.bfloat16()`: a card without it refuses, or emulates it with another range, so a value that
bfloat16 holds overflows. float16 needs gradient scaling where bfloat16 did not.

Why: The card refuses the dtype, or values overflow that bfloat16 can represent.

References:
- page targets
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.dtype._uses import dtype_findings


class Bfloat16Used(Rule):
    """Finds the first use of bfloat16 in a file."""

    CODE = "DTY102"
    EFFECT = Effect.RAISES
    WORDS = ("bfloat16",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target whose bfloat16 behaves as on CUDA."""
        return self.WORDS if "bfloat16" in target.backend.DTYPES else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield at most one finding."""
        names = frozenset({"torch.bfloat16", "torch.BFloat16Tensor", "torch.cuda.BFloat16Tensor"})
        return dtype_findings(self, context, "bfloat16", names, ("bfloat16",))
