"""What judges a value by the node around it, for each kind of node."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from torchferry.core.messages import say
from torchferry.source.flow import calls, conditions, containers, storage
from torchferry.source.flow.trace import Path, Trace, no, undecided
from torchferry.source.flow.tracer import Context, Tracer


def _pass_on(flow: Tracer, node: ast.AST, parent: ast.AST, path: Path) -> Trace:
    return flow.follow(parent, path)


def _in_message(flow: Tracer, node: ast.AST, parent: ast.AST, path: Path) -> Trace:
    return no(say("a message"))


def _by_itself(flow: Tracer, node: ast.AST, parent: ast.AST, path: Path) -> Trace:
    return no(say("a separate string, such as a docstring"))


def _in_annotation(flow: Tracer, node: ast.AST, parent: ast.AST, path: Path) -> Trace:
    return no(say("an annotation"))


def _in_function(flow: Tracer, node: ast.AST, function: ast.AST, path: Path) -> Trace:
    annotation = isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and node is function.returns
    return no(say("an annotation")) if annotation else undecided()


class Flow(Tracer):
    """A tracer that knows every context."""

    contexts: ClassVar[Mapping[type[ast.AST], Context]] = {
        ast.AnnAssign: storage.in_assignment,
        ast.Assert: _in_message,
        ast.Assign: storage.in_assignment,
        ast.AsyncFor: containers.in_loop,
        ast.AsyncFunctionDef: _in_function,
        ast.Attribute: storage.in_attribute,
        ast.Await: _pass_on,
        ast.BinOp: conditions.in_operation,
        ast.BoolOp: conditions.in_alternatives,
        ast.Call: calls.in_call,
        ast.Compare: conditions.in_comparison,
        ast.Dict: containers.in_dictionary,
        ast.Expr: _by_itself,
        ast.For: containers.in_loop,
        ast.FormattedValue: _pass_on,
        ast.FunctionDef: _in_function,
        ast.IfExp: conditions.in_conditional,
        ast.JoinedStr: _pass_on,
        ast.Lambda: _pass_on,
        ast.List: containers.in_container,
        ast.MatchValue: conditions.in_pattern,
        ast.NamedExpr: storage.in_assignment,
        ast.Raise: _in_message,
        ast.Return: storage.in_result,
        ast.Set: containers.in_container,
        ast.Starred: _pass_on,
        ast.Subscript: containers.in_item,
        ast.Tuple: containers.in_container,
        ast.Yield: storage.in_result,
        ast.YieldFrom: storage.in_result,
        ast.arg: _in_annotation,
        ast.arguments: storage.in_default,
        ast.comprehension: containers.in_loop,
        ast.keyword: calls.in_keyword,
    }
