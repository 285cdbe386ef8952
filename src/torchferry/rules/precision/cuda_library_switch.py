"""A switch of a CUDA library: `torch.backends.cudnn.benchmark`, `torch.backends.cuda.matmul.allow_tf32`.

Most can stay: the attribute exists in every torch, and without CUDA it changes nothing. Some matter: a program that
allows TF32, or requests deterministic convolutions, gets neither. If the target has its own switch, the name changes;
otherwise the finding says what is lost. Where the target has one switch for several of CUDA's, and a file sets these to
different values, a person chooses.

Why: The switch has no effect. The program may lose precision, reproducibility or speed without a message.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.references import ReferenceRule, missing, replaced, rewrite
from torchferry.source.names import Reference


class CudaLibrarySwitch(ReferenceRule):
    """Finds switches of the CUDA libraries, set or read."""

    CODE = "BKD101"
    EFFECT = Effect.WRONG
    BINDS = False  # a switch that stays raises nothing
    WORDS = ("torch.backends", "import backends")
    GROUPS = ("backends",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, assignments included."""
        set_to = _set_to(context)
        for reference in context.references.get("backends", ()):
            if not isinstance(reference.node, ast.alias):
                yield from self._check(context, reference, set_to)

    def _check(
        self, context: PythonContext, reference: Reference, set_to: dict[str, dict[str, set[str]]]
    ) -> Iterator[Finding]:
        """Yield what the target's table says of one switch."""
        span = context.file.span(reference.node)
        row = context.target.api(reference.name)
        if exemption_reason(context, reference.node) is not None:
            return
        if row.status == "unknown":
            message = say(
                "`{found}` is a switch of a CUDA library and has no effect on {target}; whether "
                "{target} has a counterpart is UNKNOWN",
                found=reference.name,
                target=context.target.title,
            )
            yield self.finding(context, span, message, Grade.MANUAL)
            return
        if row.use == reference.name:
            message = replaced(context, reference.name, row)
            yield self.finding(context, span, message, Grade.NOTE, effect=Effect.NOTHING)
            return
        rewritten = rewrite(context, reference, row)
        if rewritten is None:
            yield self.finding(context, span, missing(context, reference.name, row), Grade.MANUAL)
            return
        other = _set_otherwise(set_to.get(row.use, {}), reference.name)
        if other:
            message = say(
                "`{found}` and `{other}` are one switch on {target}, `{use}`, and are set to different values here: "
                "choose one",
                found=reference.name,
                other=other,
                target=context.target.title,
                use=row.use,
            )
            yield self.finding(context, span, message, Grade.MANUAL)
            return
        edits, imports = rewritten
        message = replaced(context, reference.name, row)
        grade = Grade.SAFE if edits else Grade.NOTE
        effect = self.EFFECT if edits else Effect.NOTHING
        yield self.finding(context, span, message, grade, edits, effect=effect, imports=imports)


def _set_to(context: PythonContext) -> dict[str, dict[str, set[str]]]:
    """Return the values that a file sets switches of CUDA's to, by the target's switch and the name."""
    values: dict[str, dict[str, set[str]]] = {}
    for each in context.references.get("backends", ()):
        statement = context.file.parents.get(each.node)
        if isinstance(statement, ast.Assign) and each.node in statement.targets:
            of_switch = values.setdefault(context.target.api(each.name).use, {})
            of_switch.setdefault(each.name, set()).add(ast.dump(statement.value))
    return values


def _set_otherwise(values: dict[str, set[str]], name: str) -> str:
    """Return another name of CUDA's that is set to other values; empty where there is none, or nothing is set."""
    own = values.get(name)
    return next((other for other, others in values.items() if own and others != own), "")
