"""What libraries that make options of parameters read of them: `fast: Annotated[bool, typer.Option("--quick")]`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchferry.programs.answers import Known
from torchferry.programs.switches import UNSAID
from torchferry.source.flow.syntax import last_name, string_value

_DECLARE = frozenset({"Option", "Argument"})


def declaration(node: ast.expr | None) -> ast.Call | None:
    """Return the call that declares an option, as a default or in an annotation: `typer.Option(...)`."""
    if isinstance(node, ast.Subscript) and last_name(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
        return next((call for part in node.slice.elts[1:] for call in [declaration(part)] if call is not None), None)
    return node if isinstance(node, ast.Call) and last_name(node.func) in _DECLARE else None


def flags_of(call: ast.Call) -> list[str]:
    """Return how an option is said: `--quick/--slow`, `-q`."""
    return [text for part in call.args for text in [string_value(part)] if text and text.startswith("-")]


def said_of_declared(call: ast.Call, name: str, said: Callable[[str], Known | None]) -> Known | None:
    """Return what the command says of a declared option; None where it says nothing.

    Args:
        call: The call that declares it.
        name: The name of the parameter.
        said: Returns what the command says of an option or key.
    """
    flags = flags_of(call)
    for flag in flags:
        on, _, off = flag.partition("/")
        for part, means in ((on, True), (off, False)):
            known = said(_key(part)) if part else None
            if known is not None:
                return known if means else Known(False, on)
    return None if any(flag.startswith("--") for flag in flags) else said(name)


def _key(flag: str) -> str:
    return flag if len(flag) == 2 else flag.lstrip("-").replace("-", "_")


def words_behind(arguments: Iterator[str | None], name: str) -> Known | None:
    """Return that nobody can tell a parameter where the command has words that no option stands before.

    Args:
        arguments: The words of the command, in their order.
        name: The name of the function, which may be the first of them.
    """
    first = next(arguments, None)
    if first == name:
        first = next(arguments, None)
    return Known(UNSAID) if first is not None and not first.startswith("-") else None
