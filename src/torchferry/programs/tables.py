"""Tables of functions and classes, `NETS = {"fast": Fast}`, and modules that are asked by name: where, and for what."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile


def key_of(file: PythonFile, use: ast.AST) -> str | None:
    """Return the key under which a dictionary holds a name, from which it is chosen; None where there is none."""
    parent = file.parents.get(use)
    if not isinstance(parent, ast.Dict) or use not in parent.values:
        return None
    key = parent.keys[parent.values.index(use)]
    return repr(key.value) if isinstance(key, ast.Constant) else "{...}"


def lookups(file: PythonFile, use: ast.AST) -> Iterator[tuple[ast.expr, ast.Compare]]:
    """Yield where a file looks something up in the table that holds a name, each with the condition that it is this.

    Nothing where the table is not a variable or an attribute of a class, where anything else is done with it, or where
    what stands for the name is no text.
    """
    table = file.parents.get(use)
    statement = file.parents.get(table) if isinstance(table, ast.Dict) else None
    if not isinstance(table, ast.Dict) or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    target, wanted = statement.targets[0], table.keys[table.values.index(use)]  # type: ignore[arg-type]
    if not isinstance(target, ast.Name) or not isinstance(wanted, ast.Constant):
        return
    of_class = isinstance(file.parents.get(statement), ast.ClassDef)
    spoken = file.attributes.get(target.id, ()) if of_class else file.names.get(target.id, ())
    found: list[tuple[ast.expr, ast.Compare]] = []
    for name in spoken:
        owner = file.parents.get(name)
        if not isinstance(name.ctx, ast.Load) or lists_keys(file, name):
            continue
        if not isinstance(owner, ast.Subscript) or owner.value is not name:
            return
        found.append((owner, ast.copy_location(ast.Compare(owner.slice, [ast.Eq()], [wanted]), owner)))
    yield from found


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


def asked_by_name(file: PythonFile, names: Names, owner: str, method: str) -> Iterator[AskedMethod]:
    """Yield where a file may ask an object of a class for a method by its name.

    Of an object that nobody knows only a name that is written down, or begins with what is, counts.
    """
    for use in file.names.get("getattr", ()):
        call = file.parents.get(use)
        if not isinstance(call, ast.Call) or call.func is not use or len(call.args) < 2:
            continue
        of, asked = call.args[0], call.args[1]
        text = string_value(asked)
        if isinstance(asked, ast.Constant):
            if text == method and (_may_be_of(file, names, of, owner) is not False):
                yield AskedMethod(call, None)
            continue
        begin = _begin(asked)
        is_called = isinstance(file.parents.get(call), (ast.Call, ast.Assign))
        is_of = _may_be_of(file, names, of, owner)
        if method.startswith(begin) and (is_of or (is_of is None and begin != "")) and (begin or is_called):
            yield AskedMethod(call, is_equal(asked, method))


def is_equal(asked: ast.expr, text: str) -> ast.Compare:
    """Return the comparison of an expression with a text that stands in no file."""
    return ast.copy_location(ast.Compare(asked, [ast.Eq()], [ast.Constant(text)]), asked)


def _begin(asked: ast.expr) -> str:
    """Return what a computed name begins with."""
    if isinstance(asked, ast.JoinedStr):
        asked = asked.values[0]
    elif isinstance(asked, ast.BinOp):
        asked = asked.left
    return (string_value(asked) or "").partition("%")[0].partition("{")[0]


def _may_be_of(file: PythonFile, names: Names, of: ast.expr, owner: str) -> bool | None:
    """Whether an expression is an object of a class, or the class; None where nobody can tell."""
    if isinstance(of, ast.Name) and of.id in ("self", "cls"):
        around = file.enclosing_class(of)
        return around is not None and around.name == owner
    if isinstance(of, ast.Call):
        return True if last_name(of.func) == owner else None
    if not isinstance(of, ast.Name):
        return None
    if of.id == owner:
        return True
    values = [assigned_value(file, binding) for binding in names.reaching_bindings(of)]
    if any(isinstance(value, ast.Call) and last_name(value.func) == owner for value in values):
        return True
    is_module = any(isinstance(binding, ast.alias) for binding in names.bindings(of))
    return False if is_module else None
