"""A check for NCCL, or a name of torch's NCCL classes.

`dist.is_nccl_available()` is False on the torch that a plugin extends. In `"nccl" if dist.is_nccl_available() else
"gloo"` the name and the question therefore change together: with the question left behind, the program would use gloo,
over the CPU, and say nothing.

Why: The program silently uses gloo over the CPU, which is much slower.

References:
- table api
"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.finding import Effect, Finding
from torchferry.rules.base import PythonContext
from torchferry.rules.family import Portability, UnderRedirect
from torchferry.rules.references import ReferenceRule
from torchferry.source.names import Reference

AVAILABILITY = frozenset({"torch.distributed.is_nccl_available", "torch.distributed.ProcessGroupNCCL"})
"""Names of NCCL in torch.distributed."""


class NcclAvailability(ReferenceRule):
    """Finds availability tests and classes of NCCL in torch.distributed."""

    CODE = "DST102"
    EFFECT = Effect.WRONG
    UNDER_REDIRECT = UnderRedirect.NOTHING
    PORTABILITY = Portability.IN_PYTHON
    WORDS = ("nccl_available", "ProcessGroupNCCL")
    GROUPS = ("distributed",)

    def check_reference(self, context: PythonContext, reference: Reference) -> Iterator[Finding]:
        """Yield a finding for a name of NCCL."""
        if reference.name.startswith(tuple(AVAILABILITY)):
            yield from super().check_reference(context, reference)
