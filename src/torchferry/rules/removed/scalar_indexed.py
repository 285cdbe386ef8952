"""A loss that is indexed as if it had one dimension: `loss.data[0]`.

A loss has had no dimension since torch 0.4, and indexing it raises since 0.5 ("invalid index of a 0-dim tensor").
`.item()` gives the number. This is written if the value is clearly a loss of torch, or a mean or sum over all values;
if only its name suggests this, you decide.

Why: The line raises with the torch of the target, usually at the first log message.

References:
- table versions
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, keyword_of
from torchferry.source.names import assigned_value

_LOSS = lazy_regex(r"(?:\A|_)(?:loss|losses|cost)(?:_|\Z)|loss\Z", re.IGNORECASE)
_LOSS_FUNCTION = lazy_regex(r"torch\.nn\.functional\.(?:\w*_loss|cross_entropy|binary_cross_entropy\w*|kl_div)\Z")
_LOSS_MODULE = lazy_regex(r"torch\.nn\.(?:modules\.loss\.)?\w+Loss\Z")


class ScalarIndexed(Rule):
    """Finds `loss.data[0]`."""

    CODE = "TCH106"
    EFFECT = Effect.RAISES
    WORDS = (".data[0]",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for node in context.file.attributes.get("data", ()):
            index = context.file.parents.get(node)
            if not isinstance(index, ast.Subscript) or index.value is not node or not isinstance(index.ctx, ast.Load):
                continue
            if not (isinstance(index.slice, ast.Constant) and index.slice.value == 0):
                continue
            if isinstance(context.file.parents.get(index), (ast.Subscript, ast.Attribute)):
                continue  # `loss.data[0][1]`, `loss.data[0].numpy()`: it has dimensions, or more must change
            sure = _is_scalar(context, node.value)
            if sure is None:
                continue
            start, _ = context.file.span(node.value)
            _, value_end = context.file.span(node.value)
            _, end = context.file.span(index)
            message = say("a loss has no dimension, so torch refuses to index it: write `.item()`")
            grade = Grade.SAFE if sure else Grade.UNSAFE
            yield self.finding(context, (start, end), message, grade, [Edit(value_end, end, ".item()")])


def _is_scalar(context: PythonContext, value: ast.expr) -> bool | None:
    """Return whether a tensor has evidently no dimension; None where nothing says so, False where its name does."""
    values = [value]
    if isinstance(value, ast.Name):
        bound = [assigned_value(context.file, binding) for binding in context.names.reaching_bindings(value)]
        values = [each for each in bound if each is not None]
        if values and len(values) == len(bound) and all(_is_loss_call(context, each) for each in values):
            return True
    elif _is_loss_call(context, value):
        return True
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    return False if _LOSS.search(name) else None


def _is_loss_call(context: PythonContext, value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or keyword_of(value, "reduction") or keyword_of(value, "reduce"):
        return False
    name = context.names.qualified(value.func) or ""
    if _LOSS_FUNCTION.match(name):
        return True
    if isinstance(value.func, ast.Attribute) and value.func.attr in ("mean", "sum") and not name:
        return not value.args and not value.keywords
    if isinstance(value.func, ast.Name):  # criterion = nn.CrossEntropyLoss()
        bound = [assigned_value(context.file, binding) for binding in context.names.bindings(value.func)]
        calls = [each for each in bound if isinstance(each, ast.Call)]
        return bool(calls) and len(calls) == len(bound) and all(_is_loss_module(context, each) for each in calls)
    return False


def _is_loss_module(context: PythonContext, call: ast.Call) -> bool:
    while (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("cuda", "to")
        and isinstance(call.func.value, ast.Call)
    ):
        call = call.func.value
    name = context.names.qualified(call.func) or ""
    return _LOSS_MODULE.match(name) is not None and not keyword_of(call, "reduction") and not keyword_of(call, "reduce")
