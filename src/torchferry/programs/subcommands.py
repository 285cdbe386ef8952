"""Subcommands of a parser: `fast.set_defaults(func=run_fast)` means `run_fast` where the command says `fast`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchferry.programs.model import Need, Program
from torchferry.programs.switches import is_word_said, name_of_subcommand, names_of_subcommands
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

Said = tuple[Need, str, str, None, tuple[str, ...]]
"""How a use is meant, as the fields of `Use` behind its place: need, choice, option, test, others."""

_PLAIN: Said = (Need.ALWAYS, "", "", None, ())


def subcommand(file: PythonFile, names: Names, use: ast.AST | None) -> Said:
    """Return how a function is meant where it is spoken of: by a subcommand, or in any case."""
    keyword = file.parents.get(use) if use is not None else None
    call = file.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "set_defaults":
        return _PLAIN
    parser: ast.expr | None = call.func.value
    if isinstance(parser, ast.Name):
        bindings = names.reaching_bindings(parser)
        parser = assigned_value(file, bindings[0]) if len(bindings) == 1 else None
    name = name_of_subcommand(parser) if isinstance(parser, ast.Call) else None
    if name is None:
        return _PLAIN
    return Need.OPTION, "", name, None, tuple(names_of_subcommands(file))


def need_of(option: str, others: Sequence[str], need: Need, program: Program) -> Need:
    """Return how surely a command means a use: by its option, by none where it says another one, else nobody knows.

    Args:
        option: What must be said for it; empty for nothing.
        others: All of which one must be said.
        need: How surely it is meant where the command says nothing of it.
        program: The program, with the commands that start it: one line may stand for several.
    """
    starts = program.own_starts
    lines = [each.arguments for each in starts if each.place == starts[0].place] or [()]
    said = [is_word_said(option, arguments) for arguments in lines]
    if any(said):
        return Need.ALWAYS if all(said) else Need.CHOSEN
    is_open = bool(others) and not all(any(is_word_said(each, arguments) for each in others) for arguments in lines)
    return Need.CHOSEN if is_open else need
