"""An execution provider of ONNX Runtime that runs on CUDA.

`CUDAExecutionProvider` and `TensorrtExecutionProvider` exist in onnxruntime-gpu only. A maker may offer a provider of
its own in a build of its own. The name is never rewritten by itself, because the package must change with it. With
`CPUExecutionProvider` listed behind it, ONNX Runtime takes the CPU and only warns: nobody has to decide anything.

Why: ONNX Runtime silently computes on the CPU.

References:
- table frameworks
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.strings import literal_span
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import string_value

_CPU = "CPUExecutionProvider"
_PROVIDERS = ("CUDAExecutionProvider", "TensorrtExecutionProvider")


class OnnxruntimeProvider(Rule):
    """Finds ONNX Runtime's providers for CUDA."""

    CODE = "LIB102"
    WORDS = _PROVIDERS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for node in context.file.strings:
            if node.value not in _PROVIDERS or is_text(context, node) or exemption_reason(context, node) is not None:
                continue
            row = context.target.row("frameworks", f"onnxruntime.provider.{node.value}")
            if row.status in REWRITTEN and row.use:
                message = noted(
                    say(
                        "`{found}` runs only on CUDA, and ONNX Runtime would use the CPU; {target} has `{use}`",
                        found=node.value,
                        target=context.target.title,
                        use=row.use,
                    ),
                    row.remark,
                )
            else:
                message = say(
                    "`{found}` runs only on CUDA, and ONNX Runtime would use the CPU; on {target}: {note}",
                    found=node.value,
                    target=context.target.title,
                    note=row.remark or say("whether there is a provider is UNKNOWN"),
                )
            grade = Grade.NOTE if _goes_on(context, node) else Grade.MANUAL
            yield self.finding(context, literal_span(context, node), message, grade)


def _goes_on(context: PythonContext, node: ast.expr) -> bool:
    """Whether the CPU's provider is listed behind a provider, alone or with its options."""
    listed: ast.AST | None = node
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.Tuple) and parent.elts[:1] == [node] and len(parent.elts) == 2:
        above = context.file.parents.get(parent)
        if isinstance(above, (ast.List, ast.Tuple)):
            listed, parent = parent, above
    if not isinstance(parent, (ast.List, ast.Tuple)):
        return False
    behind = parent.elts[[id(item) for item in parent.elts].index(id(listed)) + 1 :]
    return any(string_value(part) == _CPU for item in behind for part in (item, *getattr(item, "elts", ())))
