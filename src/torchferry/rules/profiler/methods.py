"""What is called on the profiler that a call makes, wherever it comes to: variables, attributes, and its handler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.rules.base import PythonContext, keyword_of
from torchferry.rules.object_uses import expressions_of
from torchferry.rules.value_calls import function_named
from torchferry.rules.value_steps import TracedExpression

_HANDLER = "on_trace_ready"
"""The argument whose function is given the profiler."""


def attributes_read(context: PythonContext, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes that are read from a profiler, each with where the examined file is to be reported."""
    origins = [TracedExpression(call, context.file, context.names), *_given_to_handler(context, call)]
    for value, above in expressions_of(context.values, origins, {"__enter__"}):
        place = value.left_at or above
        if isinstance(above, ast.Attribute) and isinstance(above.ctx, ast.Load) and isinstance(place, ast.expr):
            yield above.attr, place


def _given_to_handler(context: PythonContext, call: ast.Call) -> Iterator[TracedExpression]:
    """Yield the uses of a profiler in the function that it calls when a trace is ready."""
    keyword = keyword_of(call, _HANDLER)
    if keyword is None:
        return
    file, names, is_bound = context.file, context.names, False
    function: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef
    if isinstance(keyword.value, ast.Lambda):
        function = keyword.value
    else:
        defined = function_named(file, names, context.project, keyword.value)
        if defined is None:
            return
        file, names, function, is_bound = defined
    parameters = [*function.args.posonlyargs, *function.args.args][1 if is_bound else 0 :]
    if parameters:
        left_at = None if file is context.file else keyword.value
        for use in names.uses(parameters[0].arg, function):
            yield TracedExpression(use, file, names, left_at)
