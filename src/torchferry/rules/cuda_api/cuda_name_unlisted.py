"""A name below `torch.cuda` that no table lists.

It may be private (`torch.cuda._lazy_init`), newer than the tables, or misspelt. Whether the plugin has it is
UNKNOWN; with `--unsafe-fixes` it is renamed like its neighbours. What torch keeps for `torch.cuda` among its compiled
names (`torch._C._cuda_getDeviceCount`) is left to a person: a torch without CUDA lacks most of it.

Why: The name may not exist in the plugin. Then the program raises AttributeError when it reaches the line.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.rules.base import PythonContext
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.references import CUDA_NAMES, ReferenceRule, missing

_COMPILED = ("torch._C._cuda", "torch._C._Cuda", "torch._C._CUDA")


class CudaNameUnlisted(ReferenceRule):
    """Finds names of `torch.cuda` that the tables do not know."""

    CODE = "CUD106"
    EFFECT = Effect.UNKNOWN
    WORDS = (*CUDA_NAMES, "_cuda_", "_Cuda", "_CUDA")
    GROUPS = ("unlisted",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, of compiled names too."""
        yield from super().check_python(context)
        if "_C" not in context.text:
            return
        for reference in context.names.references("torch"):
            node = reference.node
            if not reference.name.startswith(_COMPILED) or not isinstance(node, (ast.Attribute, ast.alias)):
                continue
            if exemption_for(context, node) is None:
                row = context.target.api(reference.name)
                message = missing(context, reference.name, row)
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL, effect=Effect.RAISES)
