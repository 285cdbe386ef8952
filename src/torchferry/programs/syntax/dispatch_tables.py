"""Tables of functions and classes, `NETS = {"fast": Fast}`, and modules that are asked by name: where, and for what."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.dynamic_lookups import RUN_TEXTS, codes_in_texts
from torchferry.programs.syntax.method_names import MethodName
from torchferry.programs.syntax.partial_texts import WrittenEnds, written_ends
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile


def key_of(file: PythonFile, use: ast.AST) -> str | None:
    """Return the key under which a dictionary holds a name, from which it is chosen; None where there is none."""
    entry = _entry(file, use)
    if entry is None:
        return None
    return repr(entry[1].value) if isinstance(entry[1], ast.Constant) else "{...}"


def _entry(file: PythonFile, use: ast.AST) -> tuple[ast.expr, ast.expr | None] | None:
    """Return the table that holds a name, with its key; None where none does.

    `{"fast": Fast}`, `dict(fast=Fast)`, `OrderedDict([("fast", Fast)])`.
    """
    parent = file.parents.get(use)
    if isinstance(parent, ast.Dict) and use in parent.values:
        return parent, parent.keys[parent.values.index(use)]
    table = file.parents.get(parent) if isinstance(parent, ast.keyword) and parent.arg else None
    if isinstance(table, ast.Call) and isinstance(table.func, ast.Name) and table.func.id == "dict":
        assert isinstance(parent, ast.keyword)
        return table, ast.copy_location(ast.Constant(parent.arg), parent.value)
    pairs = file.parents.get(parent) if isinstance(parent, ast.Tuple) and parent.elts[1:] == [use] else None
    call = file.parents.get(pairs) if isinstance(pairs, (ast.List, ast.Tuple)) else None
    if isinstance(call, ast.Call) and call.args == [pairs] and last_name(call.func).lower().endswith("dict"):
        assert isinstance(parent, ast.Tuple)
        return call, parent.elts[0]
    return None


def table_of(file: PythonFile, use: ast.AST) -> ast.expr | None:
    """Return the table that holds a name; None where none does."""
    entry = _entry(file, use)
    return None if entry is None else entry[0]


def _commands(file: PythonFile) -> Iterator[tuple[ast.Call, ast.Dict]]:
    """Yield the calls that read a command line by a dictionary: `Fire({"train": train, "test": test})`."""
    for call in file.calls_by_name("Fire"):
        named = (part.value for part in call.keywords if part.arg == "component")
        for given in (*call.args[:1], *named):
            values: list[ast.expr | None] = [given]
            if isinstance(given, ast.Name):
                values = [assigned_value(file, binding) for binding in file.names[given.id]]
            yield from ((call, value) for value in values if isinstance(value, ast.Dict))


def commands_in(files: Iterable[tuple[PythonFile, Names] | None]) -> Iterator[str]:
    """Yield the words by which a command line names what dictionaries hold, in some files."""
    for loaded in files:
        for _, table in _commands(loaded[0]) if loaded is not None else ():
            yield from (word for key in table.keys if (word := string_value(key)) is not None)


def command_of(file: PythonFile, use: ast.AST) -> tuple[ast.Call, str, tuple[str, ...]] | None:
    """Return how a command line names what a dictionary holds.

    The call that reads the command, the word that means `use`, and the other words; None where there is no such call.
    """
    for call, table in _commands(file) if isinstance(file.parents.get(use), ast.Dict) else ():
        if use in table.values:
            own = string_value(table.keys[table.values.index(use)])
            words = (string_value(key) for key in table.keys)
            return None if own is None else (call, own, tuple(word for word in words if word not in (own, None)))
    return None


def lookups(file: PythonFile, use: ast.AST) -> Iterator[tuple[ast.expr, ast.Compare]]:
    """Yield where a file looks something up in the table that holds a name, each with the condition that it is this.

    Nothing where the table is neither asked at once nor a variable or an attribute of a class, where anything else is
    done with it, or where what represents the name is no text.
    """
    table, wanted = _entry(file, use) or (None, None)
    statement = file.parents.get(table) if table is not None else None
    if not isinstance(wanted, ast.Constant):
        return
    if isinstance(statement, ast.Subscript) and statement.value is table:
        yield statement, ast.copy_location(ast.Compare(statement.slice, [ast.Eq()], [wanted]), statement)
        return
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if statement is None or not isinstance(target, ast.Name):
        return
    of_class = isinstance(file.parents.get(statement), ast.ClassDef)
    spoken = file.attributes.get(target.id, ()) if of_class else file.names.get(target.id, ())
    compared: list[tuple[ast.expr, ast.Compare]] = []
    for name in spoken:
        owner = file.parents.get(name)
        if not isinstance(name.ctx, ast.Load) or lists_keys(file, name):
            continue
        if not isinstance(owner, ast.Subscript) or owner.value is not name:
            return
        compared.append((owner, ast.copy_location(ast.Compare(owner.slice, [ast.Eq()], [wanted]), owner)))
    yield from compared


_LISTS_KEYS = frozenset({"len", "sorted", "list", "tuple", "set", "join", "print", "enumerate", "iter"})


def lists_keys(file: PythonFile, table: ast.Name | ast.Attribute) -> bool:
    """Whether a use of a table asks for its keys alone: `sorted(NETS)`, `name in NETS`, `choices=NETS.keys()`."""
    parent = file.parents.get(table)
    if isinstance(parent, ast.Attribute):
        return parent.attr == "keys"
    if isinstance(parent, ast.Call):
        return last_name(parent.func) in _LISTS_KEYS and table is not parent.func
    if isinstance(parent, ast.Compare):
        return table in parent.comparators and all(isinstance(each, (ast.In, ast.NotIn)) for each in parent.ops)
    if isinstance(parent, (ast.For, ast.comprehension)):
        return table is parent.iter
    return isinstance(parent, ast.keyword) and parent.arg == "choices"


class AskedMethod(NamedTuple):
    """A call that asks an object for a method by a name.

    Attributes:
        call: The call: `getattr(net, f"run_{mode}")`.
        test: What must hold for the name to be that of the method; None where it is written down.
    """

    call: ast.Call
    test: ast.Compare | None


class MethodRequest(NamedTuple):
    """A call that asks an object for something by a name, without its syntax: many questions ask for these alone.

    Attributes:
        text: The name, where it is written down; else None.
        ends: What a computed name begins and ends with.
        is_used: Whether the value is called or kept.
        owners: The names of classes that the object is certainly of.
        is_other: Whether it is certainly of no class but these.
        access: What it does with what has the name: it reads, stores or deletes that.
    """

    text: str | None
    ends: WrittenEnds
    is_used: bool
    owners: frozenset[str]
    is_other: bool
    access: type[ast.expr_context] = ast.Load

    def may_be(self, owner: str, known_as: MethodName) -> bool:
        """Whether it may ask an object of a class for a method.

        Of an object that nobody knows only a name that is written down, or begins with what is, counts.
        """
        if self.access is not known_as.access:
            return False
        method = known_as.name
        is_of, is_known = owner in self.owners, owner in self.owners or self.is_other
        if self.text is not None:
            return self.text == method and (is_of or not is_known)
        if not self.ends.may_be(method) or not (self.ends.begin or self.is_used):
            return False
        return is_of or (not is_known and self.ends.begin != "")


def method_requests(file: PythonFile, names: Names) -> tuple[MethodRequest, ...]:
    """Return the calls of a file that ask an object for something by a name."""
    return tuple(request for _, request in _requests(file, names))


def asked_by_name(file: PythonFile, names: Names, owner: str, method: MethodName) -> Iterator[AskedMethod]:
    """Yield where a file may ask an object of a class for a method by its name."""
    for call, request in _requests(file, names):
        if request.may_be(owner, method):
            yield AskedMethod(call, None if request.text is not None else is_equal(call.args[1], method.name))


_ACCESS: dict[str, type[ast.expr_context]] = {"getattr": ast.Load, "setattr": ast.Store, "delattr": ast.Del}
_OF_ANY = ("methodcaller", "attrgetter")
"""Functions of `operator` that make one which asks any object for what has a name."""

ASKING = frozenset({*_ACCESS, *_OF_ANY, *RUN_TEXTS})
"""Functions that ask an object for something by a name."""


def _requests(file: PythonFile, names: Names) -> Iterator[tuple[ast.Call, MethodRequest]]:
    for function, access in _ACCESS.items():
        for use in file.names.get(function, ()):
            call = file.parents.get(use)
            if not isinstance(call, ast.Call) or call.func is not use or len(call.args) < 2:
                continue
            asked, is_used = call.args[1], isinstance(file.parents.get(call), (ast.Call, ast.Assign))
            text = (string_value(asked) or "") if isinstance(asked, ast.Constant) else None
            owners, is_other = _owners(file, names, call.args[0])
            ends = written_ends(file, names, asked)
            yield call, MethodRequest(text, ends, is_used or access is not ast.Load, owners, is_other, access)
    for function in _OF_ANY:
        for call in file.calls_by_name(function):
            text = string_value(call.args[0]) if call.args else None
            if text is not None and (names.qualified(call.func) or "").startswith("operator."):
                yield call, MethodRequest(text.rpartition(".")[2], WrittenEnds(), True, frozenset(), False)
    for code in codes_in_texts(file, names):
        for node in code.nodes:
            if isinstance(node, ast.Attribute):
                yield code.call, MethodRequest(node.attr, WrittenEnds(), True, frozenset(), False)


def is_equal(asked: ast.expr, text: str) -> ast.Compare:
    """Return the comparison of an expression with a text that is in no file."""
    return ast.copy_location(ast.Compare(asked, [ast.Eq()], [ast.Constant(text)]), asked)


def _owners(file: PythonFile, names: Names, of: ast.expr) -> tuple[frozenset[str], bool]:
    """Return the names of classes that an expression is an object of, or is, and whether it is certainly no other."""
    if isinstance(of, ast.Name) and of.id in ("self", "cls"):
        around = file.enclosing_class(of)
        return frozenset(() if around is None else (around.name,)), True
    if isinstance(of, ast.Call):
        return frozenset((last_name(of.func),)), False
    if not isinstance(of, ast.Name):
        return frozenset(), False
    values = [assigned_value(file, binding) for binding in names.reaching_bindings(of)]
    makers = {last_name(value.func) for value in values if isinstance(value, ast.Call)}
    is_module = any(isinstance(binding, ast.alias) for binding in names.bindings(of))
    return frozenset({of.id, *makers}), is_module
