"""A model compiled by `torch.compile`, or with a backend that captures CUDA graphs.

On CUDA `torch.compile` generates Triton code. A plugin has its own backend, which must be named, or none; then the
call falls back or raises when the model first runs. `mode="reduce-overhead"` and `backend="cudagraphs"` capture CUDA
graphs.

Why: The model runs without compilation, or raises at its first call, which may be long after the start.

References:
- table frameworks
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, keyword_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import string_value

_CUDA_GRAPHS = frozenset({"cudagraphs", "reduce-overhead", "max-autotune"})


class ModelCompiled(Rule):
    """Finds `torch.compile`."""

    CODE = "CMP101"
    EFFECT = Effect.RAISES
    WORDS = ("torch.compile", "import compile")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, by what the target's table says."""
        row = context.target.api("torch.compile")
        for reference in context.references.get("compile", ()):
            if reference.name != "torch.compile" or reference.is_import:
                continue
            if exemption_reason(context, reference.node) is not None:
                continue
            call = context.file.parents.get(reference.node)
            graphs = self._cuda_graphs(call) if isinstance(call, ast.Call) else None
            span = context.file.span(reference.node)
            note = row.remark or say("check that the compiled model runs and gives the same results")
            if graphs is not None:
                message = say(
                    "`{graphs}` captures CUDA graphs; on {target}: {note}",
                    graphs=graphs,
                    target=context.target.title,
                    note=note,
                )
                yield self.finding(context, span, message, Grade.MANUAL)
            elif row.status in ("missing", "partial"):
                message = say("`torch.compile` on {target}: {note}", target=context.target.title, note=note)
                asks = row.status == "missing" or self._takes_default(call, reference.node)
                if asks:
                    yield self.finding(context, span, message, Grade.MANUAL)
                else:
                    yield self.finding(context, span, message, Grade.NOTE, effect=Effect.UNKNOWN)
            elif row.status == "unknown":
                message = say("whether `torch.compile` supports {target} is UNKNOWN", target=context.target.title)
                yield self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
            elif row.note:
                message = say("`torch.compile` on {target}: {note}", target=context.target.title, note=note)
                yield self.finding(context, span, message, Grade.NOTE, effect=Effect.UNKNOWN)

    def _takes_default(self, call: ast.AST | None, function: ast.AST) -> bool:
        """Whether a use takes the backend that torch takes for CUDA: none is named, and nothing turns it off."""
        if not isinstance(call, ast.Call) or call.func is not function:
            return True
        if any(keyword.arg is None for keyword in call.keywords):
            return False
        disabled = keyword_of(call, "disable")
        if disabled is not None and not (isinstance(disabled.value, ast.Constant) and not disabled.value.value):
            return False
        backend = keyword_of(call, "backend")
        return backend is None or string_value(backend.value) == "inductor"

    def _cuda_graphs(self, call: ast.Call) -> str | None:
        for name in ("backend", "mode"):
            keyword = keyword_of(call, name)
            value = string_value(keyword.value) if keyword is not None else None
            if value in _CUDA_GRAPHS:
                return f'{name}="{value}"'
        return None
