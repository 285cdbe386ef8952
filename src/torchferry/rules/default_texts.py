"""The texts that options and parameters have where nothing else is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import defaults_of, last_name, string_value
from torchferry.source.names import assigned_value


def _defaults_of_option(context: PythonContext, name: str) -> Iterator[ast.expr]:
    """Yield the defaults of a command-line option, unless they are empty."""
    for keyword in context.file.keywords.get("default", ()):
        call = context.file.parents.get(keyword)
        if isinstance(call, ast.Call) and last_name(call.func) in ("add_argument", "add_option", "option"):
            flags = (string_value(argument) or "" for argument in call.args)
            if string_value(keyword.value) and name in (flag.lstrip("-").replace("-", "_") for flag in flags):
                yield keyword.value


def _parameter_default(context: PythonContext, binding: ast.AST) -> ast.expr | None:
    """Return the default of a parameter, unless it is an empty text, with which nothing is set."""
    arguments = context.file.parents.get(binding)
    pairs = defaults_of(arguments) if isinstance(arguments, ast.arguments) else ()
    return next((default for argument, default in pairs if argument is binding and string_value(default)), None)


def evident_texts(context: PythonContext, expression: ast.expr) -> set[str]:
    """Return texts that a value evidently may be; it may be others too."""
    return {text for choice in choices_of(context, expression) if (text := string_value(choice)) is not None}


def choices_of(context: PythonContext, expression: ast.expr) -> list[ast.expr]:
    """Return what a value evidently may be: its branches, what a variable is given, and defaults."""
    choices: list[ast.expr | None] = [expression]
    if isinstance(expression, ast.IfExp):
        choices = [expression.body, expression.orelse]
    elif isinstance(expression, ast.BoolOp):
        choices = [*expression.values]
    elif isinstance(expression, ast.Name):
        choices = []
        for binding in context.names.bindings(expression):
            choices.append(assigned_value(context.file, binding) or _parameter_default(context, binding))
    elif isinstance(expression, ast.Attribute):
        choices = [*_defaults_of_option(context, expression.attr)]
    return [choice for choice in choices if choice is not None]
