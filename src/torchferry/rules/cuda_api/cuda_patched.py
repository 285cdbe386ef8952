"""A file that replaces functions of `torch.cuda`.

Code that assigns to `torch.cuda.*` makes another device look like CUDA, or changes torch's behaviour. A partial
rewrite would break both, so the whole file is left unchanged. If it imitates CUDA on another accelerator, it is not
needed on the target. If it changes something that the target needs too, port it by hand.

Why: A file that is half rewritten neither imitates CUDA nor uses the target.

References:
- page running
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say, say_plural
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.references import CUDA_NAMES


class CudaPatched(Rule):
    """Finds assignments to names of `torch.cuda`."""

    CODE = "CUD108"
    EFFECT = Effect.UNKNOWN
    ANSWERS = (say("leave it out on the target"), say("port it by hand"))
    WORDS = CUDA_NAMES

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield one finding, at the first assignment."""
        if not context.patches_cuda:
            return
        stores = [
            reference.node
            for group, references in context.references.items()
            if group not in ("backends", "version", "accelerator")
            for reference in references
            if isinstance(reference.node, ast.Attribute) and not isinstance(reference.node.ctx, ast.Load)
        ]
        first = min(stores, key=lambda node: (node.lineno, node.col_offset))
        message = say_plural(
            "this file replaces {count} name of `torch.cuda`, so torchferry leaves the whole file as "
            "it is; decide what it should do on {target}",
            "this file replaces {count} names of `torch.cuda`, so torchferry leaves the whole file as"
            " it is; decide what it should do on {target}",
            count=len(stores),
            target=context.target.title,
        )
        yield self.finding(context, context.file.span(first), message, Grade.MANUAL)
