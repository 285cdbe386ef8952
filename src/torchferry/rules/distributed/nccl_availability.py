"""A check for NCCL, or a name of torch's NCCL classes.

`ProcessGroupNCCL` is no name of a torch without NCCL: importing it raises, under each of its names
(`torch.distributed`, `torch.distributed.distributed_c10d`, `torch._C._distributed_c10d`).

`dist.is_nccl_available()` is False on the torch that a plugin extends. In `"nccl" if dist.is_nccl_available() else
"gloo"` the name and the question therefore change together: with the question left behind, the program would use gloo,
over the CPU, and say nothing.

Why: The program silently uses gloo over the CPU, which is much slower.

References:
- table api
"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.rules.base import PythonContext
from torchferry.rules.distributed.nccl_internals import nccl_functions, unknown_elsewhere
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.family import Portability, UnderRedirect
from torchferry.rules.guarded import is_guarded
from torchferry.rules.references import ReferenceRule, missing, unknown
from torchferry.source.names import Reference

_QUESTION = "torch.distributed.is_nccl_available"
_CLASS = "torch.distributed.ProcessGroupNCCL"


def is_of_nccl(name: str) -> bool:
    """Whether a name of torch is the question for NCCL, or its class of process groups or what stands below that."""
    offered = cuda.offered_as(name)
    return offered == _QUESTION or f"{offered}.".startswith(f"{_CLASS}.")


class NcclAvailability(ReferenceRule):
    """Finds availability tests and classes of NCCL in torch.distributed."""

    CODE = "DST102"
    EFFECT = Effect.WRONG
    UNDER_REDIRECT = UnderRedirect.NOTHING
    PORTABILITY = Portability.IN_PYTHON
    WORDS = ("nccl_available", "ProcessGroupNCCL", "_nccl_", "_get_backend", "_symmetric_memory")
    GROUPS = ("distributed",)

    def check_python(self, context: PythonContext) -> Iterator[Finding]:
        """Yield a finding for each use, and for each import of what the target lacks."""
        for reference in context.references.get("distributed", ()):
            if reference.is_import and is_of_nccl(reference.name):
                yield from self._import(context, reference)
        yield from super().check_python(context)
        for node, name in nccl_functions(context):
            if exemption_for(context, node) is None and not is_guarded(context, node):
                row = context.target.api(name)._replace(status="missing", use="")
                message = missing(context, name, row)
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL, effect=Effect.RAISES)
        for node, name, use in unknown_elsewhere(context):
            if exemption_for(context, node) is None and not is_guarded(context, node):
                message = unknown(context, name, use)
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL, effect=Effect.UNKNOWN)

    def _import(self, context: PythonContext, reference: Reference) -> Iterator[Finding]:
        row = context.target.api(reference.name)
        if row.status == "missing" and exemption_for(context, reference.node) is None:
            span = context.file.span(reference.node)
            message = missing(context, reference.name, row)
            yield self.finding(context, span, message, Grade.MANUAL, effect=Effect.RAISES)

    def check_reference(self, context: PythonContext, reference: Reference) -> Iterator[Finding]:
        """Yield a finding for a name of NCCL."""
        if is_of_nccl(reference.name):
            is_class = cuda.offered_as(reference.name) != _QUESTION
            for finding in super().check_reference(context, reference):
                raises = is_class and finding.effect is self.EFFECT
                yield finding._replace(effect=Effect.RAISES) if raises else finding
