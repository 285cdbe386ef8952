"""A package of attention kernels for CUDA: flash-attn, xformers, sageattention.

Their kernels are CUDA code, so they neither build nor load on the target. Where the target has a fused attention of its
own, use that; `torch.nn.functional.scaled_dot_product_attention` runs everywhere. Plain attention gives the same
result up to rounding, holds the whole score matrix, and so needs memory that grows with the square of the length.

An import inside `try`/`except ImportError`, or behind a test whether the package is there, is only noted: the program
goes on without it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.guarded import is_guarded
from torchferry.rules.keeping import reason_to_keep

_PACKAGES = {
    "flash_attn": "flash-attn",
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_interface": "flash-attn",
    "flashinfer": "flashinfer-python",
    "sageattention": "sageattention",
    "xformers": "xformers",
}


class AttentionPackage(Rule):
    """Finds imports of attention kernels."""

    CODE = "ATT101"
    MODULES = tuple(_PACKAGES)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each import statement."""
        for module, package in _PACKAGES.items():
            seen: set[ast.AST] = set()
            for reference in context.names.references(module):
                if not isinstance(reference.node, ast.alias):
                    continue
                statement = context.file.parents[reference.node]
                if statement in seen or reason_to_keep(context, statement) is not None:
                    continue
                seen.add(statement)
                row = context.target.row("packages", package)
                if row.status == "same":
                    continue
                guarded = is_guarded(context, statement)
                message = say(
                    "`{module}` holds CUDA kernels that do not run on {target}: {advice}",
                    module=module,
                    target=context.target.title,
                    advice=row.remark or say("use torch.nn.functional.scaled_dot_product_attention"),
                )
                grade = Grade.NOTE if guarded else Grade.MANUAL
                yield self.finding(context, context.file.span(statement), message, grade, blocker=not guarded)
