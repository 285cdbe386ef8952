"""The class that follows values of one kind through a file, one context at a time."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from torchferry.core.budget import spend
from torchferry.core.messages import Message
from torchferry.source.flow.trace import Path, Trace, TraceResult, undecided
from torchferry.source.flow.values import HeldValues
from torchferry.source.lexicon import Lexicon
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

Context = Callable[[Any, ast.AST, ast.AST, Path], Trace]
"""What judges a value by the node around it; called with the tracer, the value, that node and the path."""


class Tracer:
    """Follows values of one kind through one file, and on into others of the project.

    Args:
        file: The file.
        names: Its name resolution.
        lexicon: The kind of value.
        project: The project, or None to stay within the file.
    """

    contexts: ClassVar[Mapping[type[ast.AST], Context]]

    def __init__(self, file: PythonFile, names: Names, lexicon: Lexicon, project: Project | None = None) -> None:
        self.file = file
        self.names = names
        self.lexicon = lexicon
        self.project = project
        self.values = HeldValues(file, names, lexicon)
        self._traces: dict[ast.AST, Trace] = {}
        self._used_elsewhere: dict[tuple[ast.AST | None, str], bool] = {}

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

    def is_used_elsewhere(self, expression: ast.expr) -> bool:
        """Whether a variable or an attribute is used as a value of the kind where it is not compared.

        Of `torch.ones(2, device=options.kind)` and `options.kind == "cuda"` the one says what the other is.
        """
        if not isinstance(expression, (ast.Name, ast.Attribute)):
            return False
        scope = None
        if isinstance(expression, ast.Name):
            scope = self.names.variable_scope(expression.id, self.file.scope(expression))
        key = (scope, ast.dump(expression))
        used = self._used_elsewhere.get(key)
        if used is None:
            self._used_elsewhere[key] = False  # also where the uses lead here again
            if isinstance(expression, ast.Name):
                uses: list[ast.expr] = [*self.names.uses_of(expression)]
            else:
                attributes = self.file.attributes.get(expression.attr, ())
                uses = [each for each in attributes if isinstance(each.ctx, ast.Load) and ast.dump(each) == key[1]]
            others = (each for each in uses if not isinstance(self.file.parents.get(each), ast.Compare))
            used = any(self.follow(each, Path()).result is TraceResult.YES for each in others)
            self._used_elsewhere[key] = used
        return used

    def of(self, file: PythonFile, names: Names) -> Tracer:
        """Return the tracer of the same kind for another file."""
        return type(self)(file, names, self.lexicon, self.project)

    def trace(self, node: ast.expr) -> Trace:
        """Say whether the value of an expression is used as a value of the kind."""
        trace = self._traces.get(node)
        if trace is None:
            trace = self._traces[node] = self.follow(node, Path())
        return trace

    def follow(self, node: ast.AST, path: Path) -> Trace:
        """Judge a value by its context: one step outwards, and on from there."""
        spend()
        parent = self.file.parents.get(node)
        if parent is None or not path.enter(self.file, node):
            return undecided()
        context = self.contexts.get(type(parent))
        return undecided() if context is None else context(self, node, parent, path)

    def any_use(self, uses: Iterable[ast.expr], path: Path, otherwise: Message) -> Trace:
        """Judge a value by its uses: of the kind if one is, something else if that is certain or all say so."""
        traces: list[Trace] = []
        for use in uses:
            trace = self.follow(use, path)
            if trace.result is TraceResult.YES:
                return trace
            traces.append(trace)
        for trace in traces:
            if trace.certain:
                return trace
        if traces and all(trace.result is TraceResult.NO for trace in traces):
            return traces[0]
        return undecided(otherwise)
