"""Where a file uses a dtype: by name, by method, by string."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say, say_in, say_plural
from torchferry.rules.base import PythonContext, Rule, calls_of

STATES = {
    "missing": say_in("state of a dtype", "missing"),
    "narrowed": say_in("state of a dtype", "narrowed"),
    "emulated": say_in("state of a dtype", "emulated"),
    "limited": say_in("state of a dtype", "limited"),
}
"""What a dtype can be on a target (`Backend.DTYPES`)."""

_EFFECTS = {
    "missing": Effect.RAISES,
    "narrowed": Effect.WRONG,
    "emulated": Effect.WRONG,
    "limited": Effect.UNKNOWN,  # it depends on the card
}


def dtype_findings(
    rule: Rule, context: PythonContext, dtype: str, names: frozenset[str], methods: tuple[str, ...]
) -> Iterable[Finding]:
    """Yield one finding for a file that uses a dtype which behaves otherwise on the target: at its first use."""
    state = context.target.backend.DTYPES.get(dtype)
    if state is None:
        return
    uses = sorted(_uses(context, names, methods), key=lambda node: (node.lineno, node.col_offset))
    if not uses:
        return
    message = say_plural(
        "uses {dtype} ({count} place), which is {state} on {target}: {note}",
        "uses {dtype} ({count} places), which is {state} on {target}: {note}",
        dtype=dtype,
        count=len(uses),
        state=STATES[state],
        target=context.target.title,
        note=context.target.backend.DTYPE_NOTES.get(dtype) or say("check the results"),
    )
    effect = _EFFECTS[state]
    grade = Grade.NOTE if effect is Effect.UNKNOWN else Grade.MANUAL
    yield rule.finding(context, context.file.span(uses[0]), message, grade, effect=effect)


def _uses(context: PythonContext, names: frozenset[str], methods: tuple[str, ...]) -> Iterator[ast.expr]:
    for reference in context.names.references("torch"):
        if reference.name in names and isinstance(reference.node, ast.expr):
            yield reference.node
    if context.names.references("torch"):
        for method in methods:
            for call in calls_of(context, method):
                if not call.args and not call.keywords:
                    yield call
