"""The class that follows values of one kind through a file, one context at a time."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import cached_property

from torchferry.core.messages import Message, say
from torchferry.source.flow import calls, conditions, containers, storage
from torchferry.source.flow.values import Values
from torchferry.source.flow.verdict import Path, Trace, Verdict, no, undecided
from torchferry.source.lexicon import Lexicon
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile


class Flow:
    """Follows values of one kind through one file, and on into others of the project.

    Args:
        file: The file.
        names: Its name resolution.
        lexicon: The kind of value.
        project: The project, or None to stay within the file.
    """

    def __init__(self, file: PythonFile, names: Names, lexicon: Lexicon, project: Project | None = None) -> None:
        self.file = file
        self.names = names
        self.lexicon = lexicon
        self.project = project
        self.values = Values(file, names, lexicon)
        self._traces: dict[ast.AST, Trace] = {}

    @cached_property
    def compared_with_peers(self) -> frozenset[str]:
        """Variables, dumped, that the file compares with another value of the kind, such as `cpu`."""
        compared: set[str] = set()
        for node in self.file.strings:
            comparison = self.file.parents.get(node)
            if isinstance(comparison, ast.Compare) and self.values.has_peer(node):
                sides = (comparison.left, *comparison.comparators)
                compared.update(ast.dump(side) for side in sides if isinstance(side, (ast.Name, ast.Attribute)))
        return frozenset(compared)

    @cached_property
    def returning_peers(self) -> frozenset[ast.AST]:
        """Functions that return another value of the kind, such as `cpu`."""
        returning = (
            self.file.enclosing_function(constant)
            for constant in self.file.strings
            if isinstance(self.file.parents.get(constant), ast.Return) and self.values.has_peer(constant)
        )
        return frozenset(function for function in returning if function is not None)

    def of(self, file: PythonFile, names: Names) -> Flow:
        """Return the flow of the same kind for another file."""
        return Flow(file, names, self.lexicon, self.project)

    def trace(self, node: ast.expr) -> Trace:
        """Say whether the value of an expression is used as a value of the kind."""
        trace = self._traces.get(node)
        if trace is None:
            trace = self._traces[node] = self.follow(node, Path())
        return trace

    def follow(self, node: ast.AST, path: Path) -> Trace:
        """Judge a value by its context: one step outwards, and on from there."""
        parent = self.file.parents.get(node)
        if parent is None or not path.enter(self.file, node):
            return undecided()
        context = _CONTEXTS.get(type(parent))
        return undecided() if context is None else context(self, node, parent, path)

    def any_of(self, uses: Iterable[ast.expr], path: Path, otherwise: Message) -> Trace:
        """Judge a value by its uses: of the kind if one is, something else if that is certain or all say so."""
        traces: list[Trace] = []
        for use in uses:
            trace = self.follow(use, path)
            if trace.verdict is Verdict.YES:
                return trace
            traces.append(trace)
        for trace in traces:
            if trace.certain:
                return trace
        if traces and all(trace.verdict is Verdict.NO for trace in traces):
            return traces[0]
        return undecided(otherwise)

    def held_against(self, other: ast.expr) -> Trace:
        """Judge a string that is held against an expression."""
        return conditions.held_against(self, other)

    def as_key(self, container: ast.expr) -> Trace:
        """Judge a key of a dictionary."""
        return containers.as_key(self, container)

    def under_key(self, key: ast.expr, path: Path) -> Trace:
        """Judge a value stored under a key."""
        return containers.under_key(self, key, path)

    def under_name(self, name: ast.expr) -> Trace:
        """Judge a value stored under a name that is a string."""
        return containers.under_name(self, name)

    def stored_in(self, target: ast.expr, path: Path) -> Trace:
        """Judge a value by what it is stored in."""
        return storage.stored_in(self, target, path)

    def parameter(self, argument: ast.arg, path: Path) -> Trace:
        """Judge a parameter of a function."""
        return storage.parameter(self, argument, path)


def _pass_on(flow: Flow, node: ast.AST, parent: ast.AST, path: Path) -> Trace:
    return flow.follow(parent, path)


def _in_message(flow: Flow, node: ast.AST, parent: ast.AST, path: Path) -> Trace:
    return no(say("a message"))


def _by_itself(flow: Flow, node: ast.AST, parent: ast.AST, path: Path) -> Trace:
    return no(say("a separate string, such as a docstring"))


def _in_annotation(flow: Flow, node: ast.AST, parent: ast.AST, path: Path) -> Trace:
    return no(say("an annotation"))


def _in_function(flow: Flow, node: ast.AST, function: ast.AST, path: Path) -> Trace:
    annotation = isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and node is function.returns
    return no(say("an annotation")) if annotation else undecided()


_CONTEXTS: dict[type[ast.AST], Callable[[Flow, ast.AST, ast.AST, Path], Trace]] = {
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
