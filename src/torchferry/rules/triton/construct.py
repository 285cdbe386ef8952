"""A part of a Triton kernel that the target refuses, ignores, or computes in another way.

A dtype (`tl.float64`), an argument (`tl.dot(a, b, allow_tf32=True)`), a function of NVIDIA's library or assembler, an
atomic operation in a loop: the page of the target's table has each with its source. Where another argument does the
same, it is a fix to read, since it changes how the numbers are rounded.

Why: A kernel with such a part does not compile, and the program ends when it is launched first; some parts compile and
give other numbers.

References:
- table triton
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.triton.kernels import Construct, TritonKernel, effect_of, holds, kernels_of, row_of

_HARMLESS = (Effect.NOTHING, Effect.SLOW)


class KernelConstruct(Rule):
    """Finds what kernels are made of and the table of the target speaks of."""

    CODE = "TRI101"
    EFFECT = Effect.RAISES
    MODULES = ("triton",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for the first place of each such part in each kernel."""
        if not isinstance(context.target.backend.TRITON, str):
            return  # the import is reported: no kernel compiles
        for kernel in kernels_of(context):
            met: set[str] = set()
            for construct in kernel.constructs:
                row = row_of(context, construct)
                if row.status in ("same", "unknown") or row.remark is None or construct.name in met:
                    continue
                if holds(row, construct) is False or exemption_reason(context, construct.node) is not None:
                    continue
                met.add(construct.name)
                yield self._found(context, kernel, construct)

    def _found(self, context: PythonContext, kernel: TritonKernel, construct: Construct) -> Finding:
        row = row_of(context, construct)
        if holds(row, construct):
            effect = effect_of(row)
            edits = self._edits(context, construct, row.use) if row.use else []
            form = say("the kernel `{kernel}` has `{code}`: {note}")
        else:
            effect, edits = Effect.UNKNOWN, []
            form = say("the kernel `{kernel}` has `{code}` with a value that nobody can tell from the text: {note}")
        values = (("kernel", kernel.function.name), ("code", _shown(construct)), ("note", row.remark or ""))
        message = form._replace(values=values)
        grade = Grade.NOTE if effect in _HARMLESS else Grade.UNSAFE if edits else Grade.MANUAL
        blocks = grade is Grade.MANUAL and effect is Effect.RAISES
        lacks = _shown(construct) if blocks else ""
        span = context.file.span(construct.node)
        return self.finding(context, span, message, grade, edits, effect=effect, blocker=blocks, lacks=lacks)

    @staticmethod
    def _edits(context: PythonContext, construct: Construct, use: str) -> list[Edit]:
        """Return the edit that puts the target's argument in place of one, where the call does not have it already."""
        node = construct.node
        call = context.file.parents.get(node)
        named = use.partition("=")[0]
        if not isinstance(node, ast.keyword) or not isinstance(call, ast.Call):
            return []
        if any(each.arg == named for each in call.keywords if each is not node):
            return []
        return [Edit(*context.file.span(node), use)]


def _shown(construct: Construct) -> str:
    """Return a construct as kernels have it: `tl.dot(allow_tf32=True)`."""
    name = construct.name.replace("triton.language.", "tl.")
    return f"{name[:-1]}={construct.value})" if construct.value and name.endswith(")") else name
