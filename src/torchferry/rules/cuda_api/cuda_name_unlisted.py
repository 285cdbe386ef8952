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
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.guarded import is_guarded
from torchferry.rules.references import CUDA_NAMES, ReferenceRule, missing
from torchferry.source.flow.syntax import last_name

_COMPILED = ("torch._C._cuda", "torch._C._Cuda", "torch._C._CUDA")

_INTERFACE = "__cuda_array_interface__"
"""A property of every tensor of torch that raises for one that is not on a card of CUDA (torch/_tensor.py)."""


class CudaNameUnlisted(ReferenceRule):
    """Finds names of `torch.cuda` that the tables do not know."""

    CODE = "CUD106"
    EFFECT = Effect.UNKNOWN
    ANSWERS = (say("try it on the card"), say("leave the call out"))
    WORDS = (*CUDA_NAMES, "_cuda_", "_Cuda", "_CUDA")
    GROUPS = ("unlisted",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, of compiled names too."""
        yield from super().check_python(context)
        yield from self._interfaces(context)
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

    def _interfaces(self, context: PythonContext) -> Iterator[Finding]:
        """Yield a finding for each place that takes the memory of a tensor as CUDA's: other tensors raise there.

        What is asked for it before, as `hasattr(x, "__cuda_array_interface__")` does, is code for any tensor.
        """
        reads = [each for each in context.file.attributes.get(_INTERFACE, ()) if isinstance(each.ctx, ast.Load)]
        if not reads:
            return
        asked = [text.lineno for text in context.file.strings if _is_asked(context, text)]
        row = context.target.api(f"torch.Tensor.{_INTERFACE}")._replace(status="missing", use="")
        for node in reads:
            if (
                not any(line <= node.lineno for line in asked)
                and exemption_for(context, node) is None
                and not is_guarded(context, node)
            ):
                message = missing(context, f"Tensor.{_INTERFACE}", row)
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL, effect=Effect.RAISES)


def _is_asked(context: PythonContext, text: ast.Constant) -> bool:
    """Whether something is asked whether it has the interface."""
    call = context.file.parents.get(text)
    return text.value == _INTERFACE and isinstance(call, ast.Call) and last_name(call.func) in ("hasattr", "getattr")
