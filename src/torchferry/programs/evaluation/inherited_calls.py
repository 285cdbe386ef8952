"""Calls that give the parameters of a method under another name than that of its class: a derived class has it too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.programs.evaluation.program_facts import ProgramFacts
from torchferry.programs.syntax.assignments import calls_of_base
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names
from torchferry.source.python import PythonFile


def inheriting(facts: ProgramFacts, owner: ast.ClassDef, method: str) -> Iterator[tuple[PythonFile, ast.ClassDef]]:
    """Yield the classes of a program that are derived from one, by their names, and have a method of it unchanged."""
    waiting, met = [owner.name], {owner.name}
    while waiting:
        name = waiting.pop()
        for path in facts.deriving(name):
            loaded = facts.sources.file(path)
            for node in loaded[0].classes if loaded is not None else ():
                assert loaded is not None
                is_own = any(isinstance(part, FunctionNode) and part.name == method for part in node.body)
                if node.name not in met and not is_own and name in map(last_name, node.bases):
                    met.add(node.name)
                    waiting.append(node.name)
                    yield loaded[0], node


def inherited_calls(facts: ProgramFacts, owner: ast.ClassDef) -> Iterator[tuple[PythonFile, Names, ast.Call]]:
    """Yield the calls of a program that run the `__init__` of a class, and do not name the class.

    Classes derived from it hand on to it, `super().__init__(...)`; those without an `__init__` are made with its.
    """
    heirs = [node.name for _, node in inheriting(facts, owner, "__init__")]
    for name in (owner.name, *heirs):
        for path in facts.deriving(name):
            loaded = facts.sources.file(path)
            if loaded is not None:
                yield from ((*loaded, call) for call in calls_of_base(loaded[0], name))
    for name in heirs:
        yield from calls_of_class(facts, name)


def calls_of_class(facts: ProgramFacts, name: str) -> Iterator[tuple[PythonFile, Names, ast.Call]]:
    """Yield the calls of a program that make an object of a class, judged by its name."""
    for path in facts.calling(name):
        loaded = facts.sources.file(path)
        for callee in (
            (*loaded[0].names.get(name, ()), *loaded[0].attributes.get(name, ())) if loaded is not None else ()
        ):
            assert loaded is not None
            call = loaded[0].parents.get(callee)
            if isinstance(call, ast.Call) and call.func is callee:
                yield *loaded, call
