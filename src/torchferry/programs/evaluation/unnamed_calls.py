"""The calls of a function or class that do not name it, where all of them can be followed: `NETS[name](config)`.

A class comes to such a call out of a table of a module, by a variable, or by a function that gives it back. Where it
goes anywhere else, such as into a list or to another function, nobody can tell which calls are of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeVar

from torchferry.core.record import NamedTuple
from torchferry.programs.evaluation.inherited_calls import inheriting
from torchferry.programs.evaluation.program_facts import ProgramFacts
from torchferry.programs.references.escapes import GIVE_BACK
from torchferry.programs.syntax.parameters import called_as, is_given_by_python
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_Place = TypeVar("_Place")

UnnamedCall = tuple[PythonFile, Names, ast.Call]

_DEEPEST = 6
"""Tables, variables and functions that a class is followed through."""

_MOST = 32
"""Places that a table or a function is spoken of at; of more nobody can tell."""

_ONLY_ASK = frozenset({"isinstance", "issubclass", "len", "list", "sorted", "tuple", "set", "print", "str", "repr",
                       "callable", "hasattr", "type", "id", "join", "enumerate", "signature", "getsource"})  # fmt: skip
"""Functions that call nothing of what they are given, or take the keys of a table alone."""

_OF_TABLE = frozenset({"keys", "__contains__"})


class _Spoken(NamedTuple):
    """An expression that may be the class, and where it stands."""

    file: PythonFile
    names: Names
    node: ast.expr


class _NotFollowedError(Exception):
    """Nobody can tell where a class is called."""


def unnamed_calls_of(
    facts: ProgramFacts, file: PythonFile, function: FunctionNode, name: str
) -> list[UnnamedCall] | None:
    """Return the calls of a function that may give a parameter and do not name it; None where they are unknown.

    Args:
        facts: The facts of the program.
        file: The file of the function.
        function: The function, or the `__init__` of the class, which classes that are derived from it have too.
        name: The parameter.
    """
    owner = file.parents.get(function)
    if isinstance(owner, ast.ClassDef) and function.name != "__init__":
        return None if _is_handed_away(facts, function.name) else []
    positions = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    index = positions.index(name) - is_given_by_python(owner, function) if name in positions else -1
    called = [called_as(file, function)]
    if isinstance(owner, ast.ClassDef):
        called += (heir.name for _, heir in inheriting(facts, owner, "__init__"))
        if owner.bases and facts.mentioning("__subclasses__"):
            return None
    calls: dict[ast.Call, UnnamedCall] = {}
    for each in called:
        if not facts.may_be_given_unnamed(file, function, name, index, each):
            continue
        if facts.may_be_looked_up(file.path):
            return None
        try:
            for escape in _escapes(facts, (file.path, each, function.lineno)):
                calls |= {call[2]: call for call in _followed(facts, escape, 0)}
        except _NotFollowedError:
            return None
    return [*calls.values()]


def _is_handed_away(facts: ProgramFacts, method: str) -> bool:
    """Whether a program may hold a method without calling it, so that it is called where its name does not stand."""
    if method.startswith("__") or facts.storing(method):
        return False  # an attribute of the same name is no method
    for path in facts.mentioning(method):
        loaded = facts.sources.file(path)
        if loaded is None:
            return True
        file = loaded[0]
        for use in file.attributes.get(method, ()):
            parent = file.parents.get(use)
            if isinstance(parent, (ast.Assign, ast.Dict, ast.List, ast.Tuple, ast.keyword, ast.Return, ast.NamedExpr)):
                return True
            if isinstance(parent, ast.Call) and parent.func is not use and last_name(parent.func) not in _ONLY_ASK:
                return True
        for call in (file.parents.get(each) for each in file.strings if string_value(each) == method):
            if isinstance(call, ast.Call) and last_name(call.func) in ("getattr", "methodcaller"):
                return True
    return False


def _escapes(facts: ProgramFacts, of: tuple[str, str, int]) -> Iterator[_Spoken]:
    for path in facts.mentioning(of[1]):
        loaded, places = facts.sources.file(path), {(each.line, each.column) for each in facts.escapes(path, of)}
        for use in (*loaded[0].names.get(of[1], ()), *loaded[0].attributes.get(of[1], ())) if loaded else ():
            assert loaded is not None
            if (use.lineno, use.col_offset) in places:
                yield _Spoken(*loaded, use)


def _followed(facts: ProgramFacts, spoken: _Spoken, depth: int) -> Iterator[UnnamedCall]:
    """Yield the calls that an expression comes to.

    Raises:
        _NotFollowedError: it comes to something else.
    """
    file, names, node = spoken
    parent = file.parents.get(node)
    if depth > _DEEPEST:
        raise _NotFollowedError
    if isinstance(parent, ast.Call) and parent.func is node:
        yield file, names, parent
    elif isinstance(parent, (ast.IfExp, ast.BoolOp)):
        if not isinstance(parent, ast.IfExp) or parent.test is not node:
            yield from _followed(facts, spoken._replace(node=parent), depth)
    elif isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        for target in targets:
            yield from _of_target(facts, spoken, target, depth + 1)
    elif isinstance(parent, ast.Dict) and node in parent.values:
        key = parent.keys[parent.values.index(node)]
        yield from _of_table(facts, spoken._replace(node=parent), key, depth + 1)
    elif isinstance(parent, ast.Call) and node in parent.args and last_name(parent.func) in GIVE_BACK:
        yield from _followed(facts, spoken._replace(node=parent), depth + 1)
    elif isinstance(parent, ast.Return):
        yield from _of_returned(facts, spoken, depth + 1)
    elif not isinstance(parent, (ast.Compare, ast.Expr, ast.FormattedValue)) and not _only_asks(parent, node):
        raise _NotFollowedError


def _of_target(facts: ProgramFacts, spoken: _Spoken, target: ast.expr, depth: int) -> Iterator[UnnamedCall]:
    """Yield the calls of what is assigned to a variable, or put into a table under a key."""
    if isinstance(target, ast.Subscript) and isinstance(target.value, (ast.Name, ast.Attribute)):
        yield from _looked_up(facts, spoken._replace(node=target.value), target.slice, depth)
        return
    if not isinstance(target, ast.Name):
        raise _NotFollowedError
    for use in _uses(facts, spoken, target):
        yield from _followed(facts, use, depth)


def _of_table(facts: ProgramFacts, table: _Spoken, key: ast.expr | None, depth: int) -> Iterator[UnnamedCall]:
    """Yield the calls of what a table holds under a key."""
    parent = table.file.parents.get(table.node)
    targets: list[ast.expr] = []
    if isinstance(parent, ast.Subscript) and parent.value is table.node:
        yield from _followed(facts, table._replace(node=parent), depth)
        return
    if isinstance(parent, ast.Assign):
        targets = parent.targets
    elif isinstance(parent, ast.AnnAssign) and parent.value is table.node:
        targets = [parent.target]
    if not targets or not all(isinstance(each, ast.Name) for each in targets):
        raise _NotFollowedError
    for target in targets:
        yield from _looked_up(facts, table._replace(node=target), key, depth)


def _looked_up(facts: ProgramFacts, table: _Spoken, key: ast.expr | None, depth: int) -> Iterator[UnnamedCall]:
    """Yield the calls of what the uses of a table look up, unless they ask for another key."""
    name = table.node
    if not isinstance(name, ast.Name):
        raise _NotFollowedError
    own = string_value(key)
    for use in _uses(facts, table, name):
        parent = use.file.parents.get(use.node)
        taken: ast.expr
        if isinstance(parent, ast.Subscript) and parent.value is use.node:
            if not isinstance(parent.ctx, ast.Load):
                continue
            asked, taken = parent.slice, parent
        elif isinstance(parent, ast.Attribute):
            call = use.file.parents.get(parent)
            if parent.attr in _OF_TABLE:
                continue
            if parent.attr != "get" or not isinstance(call, ast.Call) or call.func is not parent or not call.args:
                raise _NotFollowedError
            asked, taken = call.args[0], call
        elif isinstance(parent, (ast.Compare, ast.FormattedValue)) or _only_asks(parent, use.node):
            continue
        elif isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is use.node:
            continue  # the keys
        else:
            raise _NotFollowedError
        text = string_value(asked)
        if own is None or text is None or own == text:
            yield from _followed(facts, use._replace(node=taken), depth + 1)


def _of_returned(facts: ProgramFacts, spoken: _Spoken, depth: int) -> Iterator[UnnamedCall]:
    """Yield the calls of what a function gives back."""
    around = spoken.file.enclosing_function(spoken.node)
    if not isinstance(around, FunctionNode) or around.decorator_list:
        raise _NotFollowedError
    of = (spoken.file.path, called_as(spoken.file, around), around.lineno)
    if any(True for _ in _escapes(facts, of)) or facts.may_be_looked_up(spoken.file.path):
        raise _NotFollowedError
    for file, names, call in _few(facts.calls_of(spoken.file, around)):
        yield from _followed(facts, _Spoken(file, names, call), depth)


def _uses(facts: ProgramFacts, spoken: _Spoken, name: ast.Name) -> Iterator[_Spoken]:
    """Yield where a variable is read; one of a module also in other files, judged by its name.

    Raises:
        _NotFollowedError: another name may represent it.
    """
    file, names, _ = spoken
    scope = names.variable_scope(name.id, file.scope(name))
    if scope is None or isinstance(scope, ast.ClassDef):
        raise _NotFollowedError
    if scope is not file.tree:
        yield from (_Spoken(file, names, use) for use in _few(names.uses(name.id, scope)))
        return
    for path in facts.mentioning(name.id):
        loaded = facts.sources.file(path)
        if loaded is None:
            raise _NotFollowedError
        other, other_names = loaded
        if any(alias.name == name.id and alias.asname for each in other.imports for alias in each.names):
            raise _NotFollowedError
        for use in _few((*other.names.get(name.id, ()), *other.attributes.get(name.id, ()))):
            if isinstance(use.ctx, ast.Load):
                yield _Spoken(other, other_names, use)


def _few(places: Iterable[_Place]) -> list[_Place]:
    whole = [*places]
    if len(whole) > _MOST:
        raise _NotFollowedError
    return whole


def _only_asks(parent: ast.AST | None, node: ast.AST) -> bool:
    """Whether a call is given something only to be told what it is."""
    return isinstance(parent, ast.Call) and node in parent.args and last_name(parent.func) in _ONLY_ASK
