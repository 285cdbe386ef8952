"""The expressions that an object comes to: through variables, attributes, calls, with statements, its own methods."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set

from torchferry.rules.value_steps import TracedExpression
from torchferry.rules.value_uses import ValueFlow
from torchferry.source.flow.syntax import last_name


def expressions_of(
    flow: ValueFlow, origins: Iterable[TracedExpression], same: Set[str]
) -> Iterator[tuple[TracedExpression, ast.AST | None]]:
    """Yield the expressions that are an object, each with the context of it.

    Args:
        flow: Follows the values of the file.
        origins: Where the object begins.
        same: Its methods that return the object itself.
    """
    waiting = list(origins)
    seen: set[ast.AST] = set()
    while waiting:
        for value in flow.follow(waiting.pop()).values:
            if value.node in seen:
                continue
            seen.add(value.node)
            above = value.file.parents.get(value.node)
            yield value, above
            method = above if isinstance(above, ast.Attribute) and above.attr in same else None
            given = value.file.parents.get(method) if method is not None else above
            if isinstance(given, ast.Call) and (
                given.func is method or (value.node in given.args and last_name(given.func) == "enter_context")
            ):
                waiting.append(value._replace(node=given))
