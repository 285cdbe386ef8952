"""Tables of functions and classes, `NETS = {"fast": Fast}`: where they are asked, and for what."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.source.flow.syntax import last_name
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
