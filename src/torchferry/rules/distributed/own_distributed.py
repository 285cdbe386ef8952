"""A function or class of torch that the target replaces by its own.

Some plugins carry their own copy of `torch.distributed`, of `DistributedDataParallel` or of the sampler, and the
stock ones fail with theirs (`Invalid backend`, parameters said to be on the CPU). The name changes to the plugin's.
Code for every device (`migrate --style portable`) has no name for both: there a person calls each behind a test of its
device.

Why: torch's own function fails with the plugin's tensors or process groups.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.portable import MIXED_PRECISION
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding
from torchferry.rules.base import Options, PythonContext
from torchferry.rules.distributed.data_parallel import NAMES
from torchferry.rules.distributed.nccl_availability import is_of_nccl
from torchferry.rules.distributed.nccl_backend_string import CONSTANTS
from torchferry.rules.family import Portability
from torchferry.rules.references import ReferenceRule, concerned


class OwnDistributed(ReferenceRule):
    """Finds uses of torch names, other than CUDA's, that have another name on the target."""

    CODE = "DST106"
    EFFECT = Effect.RAISES
    PORTABILITY = Portability.IN_PYTHON
    BINDS = False
    WORDS = ("distributed", "DistributedDataParallel", "DistributedSampler", "profiler", "optim")
    GROUPS = ()

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target that works with torch's own."""
        return self.WORDS if target.replaces_torch_names else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use; imports are `IMP102`'s."""
        for reference in context.names.references("torch"):
            node = reference.node
            if isinstance(node, ast.alias) or cuda.api_group(reference.name) not in ("", "distributed"):
                continue
            if is_of_nccl(reference.name) or reference.name in CONSTANTS:
                continue
            if context.target.module and reference.name in MIXED_PRECISION:
                continue
            if not isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            lost = _is_of_groups(context, reference.name) and row_is_missing(context, reference.name)
            if lost or concerned(context, reference.name):
                yield from self.check_reference(context, reference)


def _is_of_groups(context: PythonContext, name: str) -> bool:
    """Whether a name is torch's own for process groups; in portable code also one that works on them."""
    if name.startswith(Backend.DISTRIBUTED):
        return True
    return bool(context.target.module) and cuda.api_group(name) == "distributed" and name not in NAMES


def row_is_missing(context: PythonContext, name: str) -> bool:
    """Whether the target's table says that it lacks a name of torch."""
    return context.target.api(name).status == "missing"
