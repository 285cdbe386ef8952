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

from torchferry.backends.triton_target import effect_of
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.triton.kernels import Construct, TableEntry, TritonKernel, entries_of, kernels_of

_HARMLESS = (Effect.NOTHING, Effect.SLOW)


class KernelConstruct(Rule):
    """Finds what kernels are made of and the table of the target speaks of."""

    CODE = "TRI101"
    EFFECT = Effect.RAISES
    ANSWERS = (say("change the kernel"), say("replace the kernel"))
    MODULES = ("triton",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each place with a fix, and of the others for the first of each kernel."""
        if not isinstance(context.target.backend.TRITON, str):
            return  # the import is reported: no kernel compiles
        for kernel in kernels_of(context):
            met: set[tuple[str, bool]] = set()
            for entry in entries_of(context, kernel):
                if entry.row.status == "unknown":
                    continue  # TRI102 names it
                finding = self._finding(context, kernel, entry)
                key = entry.construct.name, entry.is_certain
                if finding.edits or key not in met:
                    met.add(key)
                    yield finding

    def _finding(self, context: PythonContext, kernel: TritonKernel, entry: TableEntry) -> Finding:
        construct, row = entry.construct, entry.row
        edits = self._edits(context, construct, row.use) if row.use and entry.is_certain else []
        effect = effect_of(row) if entry.is_certain else Effect.UNKNOWN
        form = (
            say("the kernel `{kernel}` has `{code}`: {note}")
            if entry.is_certain
            else say("the kernel `{kernel}` has `{code}` with a value that nobody can tell from the text: {note}")
        )
        values = (("kernel", kernel.function.name), ("code", _shown(construct)), ("note", row.remark or ""))
        grade = Grade.NOTE if effect in _HARMLESS else Grade.UNSAFE if edits else Grade.MANUAL
        blocks = grade is Grade.MANUAL and entry.is_refused
        lacks = _shown(construct) if blocks else ""
        message, span = form._replace(values=values), context.file.span(construct.node)
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
