"""What the body of a class gives an attribute, where it is known which class is asked, or of which an object is.

`CFG.fast` after `class CFG: fast = True`, `config.fast` where the calls on the way give the class or what it makes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Protocol

from torchferry.core.record import NamedTuple
from torchferry.programs.around import FunctionNode
from torchferry.programs.parameters import MOST_CALLS, Parameter, called_as, function_of, given_by
from torchferry.programs.sources import Sources
from torchferry.programs.stored import stores_in
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_DEEPEST = 6
"""Variables, parameters and bases that are followed to a class."""


class Expression(NamedTuple):
    """An expression of a file."""

    file: PythonFile
    names: Names
    node: ast.expr


class Calls(Protocol):
    """Knows the calls of a program."""

    def given(self, parameter: Parameter) -> Expression | None:
        """Return what the calls on the way give to a parameter; None where the way says nothing of it."""

    def calls_of(self, called: str) -> Iterator[tuple[PythonFile, Names, ast.Call]]:
        """Yield the calls of what is called by a name."""

    def calling(self, called: str) -> tuple[str, ...]:
        """Return the files with such calls."""


class ClassObject(NamedTuple):
    """A class, or an object of it.

    Attributes:
        file: The file that defines it.
        names: What names mean there.
        node: Its definition.
        made: The call that makes the object; None for the class itself.
    """

    file: PythonFile
    names: Names
    node: ast.ClassDef
    made: Expression | None = None


class _Taken(NamedTuple):
    """What all calls give to a parameter, and the names of the functions whose calls say so."""

    of: ClassObject | None = None
    called: frozenset[str] = frozenset()


class ClassValues:
    """Finds the values that classes give attributes, for one program.

    Args:
        sources: The project's files.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._taken: dict[Parameter, _Taken] = {}
        self._called: frozenset[str] = frozenset()
        self._following = 0

    def value(self, of: Expression, name: str, calls: Calls) -> Expression | None:
        """Return the value that its class gives an attribute, and nothing changes; None where that is not known.

        Args:
            of: What is asked for the attribute.
            name: The attribute.
            calls: The program's calls.
        """
        asked = self._class_of(of, calls, 0)
        return self._value(asked, name, calls, 0) if asked is not None else None

    def _class_of(self, where: Expression, calls: Calls, depth: int) -> ClassObject | None:
        """Return the class that an expression means or makes an object of."""
        file, names, node = where
        if depth > _DEEPEST:
            return None
        if isinstance(node, ast.Call):
            made = self._class_of(Expression(file, names, node.func), calls, depth + 1)
            return made._replace(made=where) if made is not None and made.made is None else None
        bindings = names.bindings(node) if isinstance(node, ast.Name) else []
        if len(bindings) == 1 and not isinstance(bindings[0], ast.alias):
            binding = bindings[0]
            if isinstance(binding, ast.ClassDef):
                return ClassObject(file, names, binding)
            if isinstance(binding, ast.arg):
                return self._given_to(file, binding, calls, depth)
            value = assigned_value(file, binding)
            return self._class_of(Expression(file, names, value), calls, depth + 1) if value is not None else None
        qualified = names.qualified(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        defined = self._sources.project.definition(qualified, file.path) if qualified is not None else None
        if defined is None or not isinstance(defined[2], ast.ClassDef):
            return None
        return ClassObject(defined[0], defined[1], defined[2])

    def _given_to(self, file: PythonFile, argument: ast.arg, calls: Calls, depth: int) -> ClassObject | None:
        """Return the class that is given to a parameter: on the way, else by all calls of its function alike."""
        function = function_of(file, argument)
        if function is None:
            return None
        key = Parameter(file.path, function.lineno, argument.arg)
        given = calls.given(key)
        if given is not None:
            return self._class_of(given, calls, depth + 1)
        if key not in self._taken:
            if self._following > _DEEPEST:
                return None
            self._taken[key] = _Taken()  # ends recursion
            outer, self._called = self._called, frozenset({called_as(file, function)})
            self._following += 1
            of = self._agreed(file, function, key, calls)
            self._following -= 1
            self._taken[key] = _Taken(of, self._called)
            self._called = outer
        taken = self._taken[key]
        self._called |= taken.called
        for called in taken.called:  # an answer depends on who calls, whether that is known by now or not
            calls.calling(called)
        return taken.of

    def _agreed(self, file: PythonFile, function: FunctionNode, key: Parameter, calls: Calls) -> ClassObject | None:
        """Return the class that all calls of a function give to a parameter; None where they differ or do not say."""
        of_class = isinstance(file.parents.get(function), ast.ClassDef)
        agreed: ClassObject | None = None
        for number, (other, names, call) in enumerate(calls.calls_of(called_as(file, function))):
            given = given_by(file.path, function, call, other.path, bound=of_class).get(key)
            if given is None or number >= MOST_CALLS:
                return None
            of = self._class_of(Expression(other, names, given.value), calls, 0)
            if of is None or (agreed is not None and of != agreed):
                return None
            agreed = of
        return agreed

    def _value(self, of: ClassObject, name: str, calls: Calls, depth: int) -> Expression | None:
        if of.made is not None and isinstance(of.made.node, ast.Call):
            call = of.made.node
            keyword = next((each for each in call.keywords if each.arg == name), None)
            if keyword is not None:
                return Expression(of.made.file, of.made.names, keyword.value)
            if call.args or any(each.arg is None for each in call.keywords) or any(stores_in(of.file, "self", name)):
                return None
        if of.node.decorator_list:  # fields of dataclasses are options: `switches` knows them
            return None
        values = [
            statement.value
            for statement in of.node.body
            if isinstance(statement, (ast.Assign, ast.AnnAssign))
            for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
            if isinstance(target, ast.Name) and target.id == name
        ]
        if len(values) == 1:
            value = values[0]
            return (
                Expression(of.file, of.names, value) if value is not None and not self._is_changed(of, name) else None
            )
        for base in of.node.bases if not values and depth < _DEEPEST else ():
            inner = self._class_of(Expression(of.file, of.names, base), calls, 0)
            inherited = self._value(inner._replace(made=None), name, calls, depth + 1) if inner is not None else None
            if inherited is not None:
                return inherited
        return None

    def _is_changed(self, of: ClassObject, name: str) -> bool:
        """Whether a file may give the attribute another value: by its name, or by names that it computes."""
        words = self._sources.words
        for path in words.as_attribute(name):
            loaded = self._sources.file(path)
            if loaded is None or any(
                isinstance(store.ctx, ast.Store)
                and not (isinstance(store.value, ast.Name) and store.value.id == "self")
                for store in loaded[0].attributes.get(name, ())
            ):
                return True
        speaking = {of.file.path, *words.holding(of.node.name)}
        return any("setattr(" in self._sources.text(path).replace("setattr(self", "") for path in speaking)


def is_self(node: ast.expr) -> bool:
    """Whether an expression is the object that a method belongs to."""
    return isinstance(node, ast.Name) and node.id == "self"
