"""A kernel written in Triton.

Triton compiles for NVIDIA and AMD cards. Some vendors publish a Triton for their cards, which compiles the same source
with some limits; TRI101, TRI102 and TRI103 say what they mean for the kernels of the project. Without one, the kernels
must be ported or replaced with torch operators.

Why: A kernel that cannot be compiled stops the program. Without a Triton for the card, no setting helps.

References:
- table packages
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.unknown import UNKNOWN
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import OncePerBlock, PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import MISSING, Guard, guard_of, without


class TritonImport(Rule):
    """Finds imports of Triton; what is known of the kernels of a file is told by rules of their own."""

    CODE = "CMP102"
    EFFECT = Effect.RAISES
    MODULES = ("triton",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each block that imports it: a program may come to any of them."""
        once = OncePerBlock(context.file)
        triton = context.target.backend.TRITON
        note = context.target.row("packages", "triton").remark
        for reference in context.names.references("triton"):
            if not isinstance(reference.node, ast.alias):
                continue
            statement = context.file.parents[reference.node]
            if exemption_reason(context, statement) is not None:
                continue
            span = context.file.span(statement)
            if isinstance(triton, str):
                message = say(
                    "Triton for {target} is `{package}`; {note}",
                    target=context.target.title,
                    package=triton,
                    note=note or say("check each kernel"),
                )
                reported = self.finding(context, span, message, Grade.NOTE, effect=Effect.UNKNOWN)
            elif triton is UNKNOWN:
                message = say("whether Triton supports {target} is UNKNOWN", target=context.target.title)
                reported = self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
            else:
                guard = guard_of(context.file, statement, MISSING)
                message = say(
                    "there is no Triton for {target}: {note}",
                    target=context.target.title,
                    note=note or say("replace these kernels with torch operators, or port them"),
                )
                grade, effect = without(guard, self.EFFECT)
                blocker = guard is Guard.NONE
                reported = self.finding(context, span, message, grade, effect=effect, blocker=blocker, lacks="triton")
            yield from once.first(statement, reported)
