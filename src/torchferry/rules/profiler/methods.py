"""What is called on the profiler that a call makes, wherever it comes to: variables, attributes, and its handler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.rules.base import PythonContext, keyword_of
from torchferry.rules.value_calls import function_named
from torchferry.rules.value_uses import TracedExpression
from torchferry.source.flow.syntax import last_name

_HANDLER = "on_trace_ready"
"""The argument whose function is given the profiler."""


def attributes_read(context: PythonContext, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes that are read from a profiler, each with where the examined file is to be reported."""
    waiting = [TracedExpression(call, context.file, context.names), *_given_to_handler(context, call)]
    seen: set[ast.AST] = set()
    while waiting:
        for value in context.values.follow(waiting.pop()).values:
            if value.node in seen:
                continue
            seen.add(value.node)
            above = value.file.parents.get(value.node)
            if isinstance(above, ast.Attribute) and isinstance(above.ctx, ast.Load):
                place = value.left_at or above
                if isinstance(place, ast.expr):
                    yield above.attr, place
                entered = value.file.parents.get(above)
                if above.attr == "__enter__" and isinstance(entered, ast.Call):
                    waiting.append(value._replace(node=entered))
            elif isinstance(above, ast.Call) and last_name(above.func) == "enter_context":
                waiting.append(value._replace(node=above))


def _given_to_handler(context: PythonContext, call: ast.Call) -> Iterator[TracedExpression]:
    """Yield the uses of a profiler in the function that it calls when a trace is ready."""
    keyword = keyword_of(call, _HANDLER)
    if keyword is None:
        return
    file, names, function, is_bound = context.file, context.names, keyword.value, False
    if not isinstance(function, ast.Lambda):
        defined = function_named(file, names, context.project, function)
        if defined is None:
            return
        file, names, function, is_bound = defined
    parameters = [*function.args.posonlyargs, *function.args.args][1 if is_bound else 0 :]
    if parameters:
        left_at = None if file is context.file else keyword.value
        for use in names.uses(parameters[0].arg, function):
            yield TracedExpression(use, file, names, left_at)
