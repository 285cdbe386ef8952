"""A call of `torch.stft` that does not say whether its result is complex.

Since torch 2.0 it raises for a real input: `return_complex` must be given. Such a program expects the old form, with
the real and imaginary part in a last dimension of two. `return_complex=False` still returns it, with a warning.
`torch.istft` accepts only the complex form: pass `torch.view_as_complex(...)` of the old one.

Why: The call raises with the torch of the target.

References:
- table versions
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.removed import release, torch_of
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.removed._names import is_chosen

_SINCE = release("2.0")
"""pytorch/pytorch pull request 86724; run with torch 2.13.0."""

_POSITION = 9
"""Index of `return_complex` among the arguments of `torch.stft`."""


class StftRealResult(Rule):
    """Finds `torch.stft` without `return_complex`."""

    CODE = "TCH102"
    EFFECT = Effect.RAISES
    WORDS = ("stft",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target whose torch takes the call as it is."""
        return self.WORDS if release(torch_of(target)) >= _SINCE else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call."""
        for call, position in _calls(context):
            if len(call.args) > position or any(keyword.arg in (None, "return_complex") for keyword in call.keywords):
                continue
            if any(isinstance(argument, ast.Starred) for argument in call.args) or is_chosen(context, call):
                continue
            span = context.file.span(call.func)
            advice = say(
                "torch {torch}, which {target} uses, refuses `stft` without `return_complex`; "
                "`return_complex=False` gives the old result",
                torch=torch_of(context.target),
                target=context.target.title,
            )
            edit = _argument_added(context, call, "return_complex=False")
            # an input that may be complex has a complex result, which False would refuse
            grade = Grade.UNSAFE if "complex" in context.text.replace("return_complex", "") else Grade.SAFE
            if edit is None:
                grade = Grade.MANUAL
            yield self.finding(context, span, advice, grade, [edit] if edit is not None else [])


def _calls(context: PythonContext) -> Iterator[tuple[ast.Call, int]]:
    """Yield the calls of `torch.stft`, with the position of the argument."""
    for node in context.file.attributes.get("stft", ()):
        call = context.file.parents.get(node)
        if isinstance(call, ast.Call) and call.func is node and context.names.qualified(node) == "torch.stft":
            yield call, _POSITION
    for name in context.file.names.get("stft", ()):
        call = context.file.parents.get(name)
        if isinstance(call, ast.Call) and call.func is name and context.names.qualified(name) == "torch.stft":
            yield call, _POSITION


def _argument_added(context: PythonContext, call: ast.Call, argument: str) -> Edit | None:
    """Return the edit that gives a call one more argument; None where a comment stands behind the last one."""
    _, end = context.file.span(call)
    spans = [context.file.span(given) for given in (*call.args, *call.keywords)]
    if not spans:
        return None
    last = max(stop for _, stop in spans)
    rest = context.text[last : end - 1]
    if rest.strip() not in ("", ","):
        return None
    return Edit(last, last, f", {argument}")
