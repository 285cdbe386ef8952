"""One result of the device beside that of the reference, as the standards judge it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from torchferry.numerics.compare import measuring
from torchferry.numerics.compare.status import Measures
from torchferry.numerics.compare.tables import Growth
from torchferry.numerics.compare.tolerances import Bound


@dataclass(eq=False)
class Pair:
    """A result and its reference: real, finite, of the same shape.

    Attributes:
        operator: Name of the operator without namespace and overload, `addmm`.
        growth: How errors grow in it.
        device: The result of the device, on the CPU.
        reference: That of the reference, in higher precision.
        dtype: Of the device's result.
        bound: What its error may be.
        wider: Another bound to try when it is outside of `bound`; None where there is none.
        same_dtype: Gives the result of the CPU in the same dtype, or None where the CPU cannot.
        cheap: Whether only what the verdict needs is measured.
    """

    operator: str
    growth: Growth
    device: Tensor
    reference: Tensor
    dtype: torch.dtype
    bound: Bound
    wider: Callable[[], Bound | None]
    same_dtype: Callable[[], Tensor | None]
    cheap: bool = False

    def judge_by(self, bound: Bound) -> None:
        """Take another bound in place of the one so far."""
        self.bound = bound
        for known in ("fraction", "measures"):
            self.__dict__.pop(known, None)

    @cached_property
    def fraction(self) -> float:
        """The greatest error over its bound."""
        if "measures" in self.__dict__ and self.measures.of_bound is not None:
            return self.measures.of_bound
        return measuring.of_bound(self.device, self.reference, self.bound)

    @cached_property
    def measures(self) -> Measures:
        """All distances."""
        return measuring.measure(self.device, self.reference, self.bound, self.dtype)

    @cached_property
    def same(self) -> Tensor | None:
        """The CPU's result in the same dtype, in the reference's dtype."""
        return self.same_dtype()

    @cached_property
    def ratios(self) -> tuple[float, float] | None:
        """RMSE and greatest error over those of the CPU in the same dtype."""
        if self.same is None:
            return None
        return measuring.ratios(self.device, self.same, self.reference, self.dtype)
