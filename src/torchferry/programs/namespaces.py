"""Where a name is looked up in a module by a text: `getattr(nets, kind)`, `globals()[stage]`, `eval(kind)(...)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from torchferry.core.record import NamedTuple
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

WORDS = frozenset(
    {"__dict__", "__main__", "attrgetter", "eval", "exec", "getattr", "globals", "locals", "modules", "vars"}
)
"""What a file says that looks something up so."""

_OWN = ("globals", "locals", "vars")
_EVALUATES = ("eval", "exec")
_KEEPS = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.keyword, ast.Attribute, ast.IfExp)
_ONLY_READ = frozenset({"isinstance", "print", "str", "repr", "len", "bool", "hasattr", "id"})
_TAKES_ITEM = frozenset({"get", "pop", "__getitem__", "setdefault"})


class NamespaceLookup(NamedTuple):
    """A look-up of a name in a module.

    Attributes:
        node: The expression that stands for what is found.
        asked: What the name is compared with; None where the text says more than a name.
        module: The name of the module as the file has it; empty for the file itself.
    """

    node: ast.expr
    asked: ast.expr | None
    module: str


_FOUND: WeakKeyDictionary[PythonFile, tuple[NamespaceLookup, ...]] = WeakKeyDictionary()


def namespace_lookups(file: PythonFile, names: Names) -> tuple[NamespaceLookup, ...]:
    """Return where a file looks a name up in itself or in a module, and uses what it finds.

    A name that is written down counts as any other does: `getattr(nets, "Fast")`. What is only read, compared or
    collected is no use: `{key: globals()[key] for key in keys}`.
    """
    if file not in _FOUND:
        _FOUND[file] = tuple(each for each in _lookups(file, names) if _is_used(file, each.node))
    return _FOUND[file]


def _lookups(file: PythonFile, names: Names) -> Iterator[NamespaceLookup]:
    for name in _OWN:
        for use in file.names.get(name, ()):
            call = file.parents.get(use)
            if isinstance(call, ast.Call) and call.func is use and not (name == "vars" and call.args):
                yield from _item(file, call, "")
    for use in file.names.get("vars", ()):
        call = file.parents.get(use)
        if isinstance(call, ast.Call) and call.func is use and len(call.args) == 1:
            module = _module(names, call.args[0])
            yield from _item(file, call, module) if module is not None else ()
    for attribute in file.attributes.get("__dict__", ()):
        module = _module(names, attribute.value)
        yield from _item(file, attribute, module) if module is not None else ()
    for use in file.names.get("getattr", ()):
        call = file.parents.get(use)
        if isinstance(call, ast.Call) and call.func is use and len(call.args) > 1:
            module = _module(names, call.args[0])
            if module is not None:
                yield NamespaceLookup(call, call.args[1], module)
    for getter in (*file.names.get("attrgetter", ()), *file.attributes.get("attrgetter", ())):
        call = file.parents.get(getter)
        outer = file.parents.get(call) if isinstance(call, ast.Call) and call.func is getter and call.args else None
        if isinstance(call, ast.Call) and isinstance(outer, ast.Call) and outer.func is call and outer.args:
            module = _module(names, outer.args[0])
            if module is not None:
                yield NamespaceLookup(outer, call.args[0], module)
    for name in _EVALUATES:
        for use in file.names.get(name, ()):
            call = file.parents.get(use)
            if isinstance(call, ast.Call) and call.func is use and call.args:
                yield from _evaluated(file, names, call)


def _item(file: PythonFile, table: ast.expr, module: str) -> Iterator[NamespaceLookup]:
    """Yield what is taken out of the dictionary of a module: `table[name]`, `table.get(name)`."""
    owner = file.parents.get(table)
    if isinstance(owner, ast.Subscript) and owner.value is table and isinstance(owner.ctx, ast.Load):
        yield NamespaceLookup(owner, owner.slice, module)
    elif isinstance(owner, ast.Attribute) and owner.attr in _TAKES_ITEM:
        call = file.parents.get(owner)
        if isinstance(call, ast.Call) and call.func is owner and call.args:
            yield NamespaceLookup(call, call.args[0], module)
    elif isinstance(owner, ast.Assign) and owner.value is table and len(owner.targets) == 1:
        target = owner.targets[0]
        if isinstance(target, ast.Name):
            for use in file.names.get(target.id, ()):
                if isinstance(use.ctx, ast.Load):
                    yield from _item(file, use, module)


def _module(names: Names, expression: ast.expr) -> str | None:
    """Return the name of the module that an expression is, empty for the file itself; None for anything else."""
    if isinstance(expression, ast.Subscript) and names.qualified(expression.value) == "sys.modules":
        return _named(expression.slice)
    if isinstance(expression, ast.Call):
        return _named(expression.args[0]) if last_name(expression.func) == "import_module" and expression.args else None
    name = names.qualified(expression)
    return "" if name == "__main__" else name


def _named(expression: ast.expr) -> str | None:
    if isinstance(expression, ast.Name) and expression.id == "__name__":
        return ""
    written = string_value(expression)
    return "" if written == "__main__" else written


def _evaluated(file: PythonFile, names: Names, call: ast.Call) -> Iterator[NamespaceLookup]:
    """Yield what a text that is evaluated may name: all of it where it is a name, parts of it where it is more."""
    text = call.args[0]
    if isinstance(text, ast.Constant):
        return  # what is written down is read as code
    begin, is_more = _begin(text)
    module, dot, _ = begin.rpartition(".")
    if dot and module.replace(".", "").isidentifier():
        yield NamespaceLookup(call, None, names.qualified(ast.parse(module, mode="eval").body) or module)
    elif is_more or (last_name(call.func) == "eval" and _is_called(file, call)):
        yield NamespaceLookup(call, None if is_more else text, "")


def _begin(text: ast.expr) -> tuple[str, bool]:
    """Return the written beginning of a text, and whether something in it is called."""
    written = [str(part.value) for part in ast.walk(text) if isinstance(part, ast.Constant) and part.value is not None]
    first: ast.expr = text
    while isinstance(first, (ast.BinOp, ast.JoinedStr)):
        first = first.left if isinstance(first, ast.BinOp) else first.values[0]
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "format":
        first = first.func.value
    begin = (string_value(first) or "").partition("{")[0].partition("%")[0]
    is_composed = isinstance(text, (ast.BinOp, ast.JoinedStr)) or first is not text
    return begin, is_composed and any("(" in part for part in written)


def _is_used(file: PythonFile, node: ast.expr) -> bool:
    """Whether what is found is called, kept, returned or handed on, and not only read."""
    parent = file.parents.get(node)
    if isinstance(parent, ast.Call):
        return last_name(parent.func) not in _ONLY_READ
    if isinstance(node, ast.Call) and last_name(node.func) in _EVALUATES:
        return True
    return isinstance(
        parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.keyword, ast.Attribute, ast.IfExp)
    )


def _is_called(file: PythonFile, call: ast.Call) -> bool:
    """Whether the value of a call is called, there or by the variable that keeps it."""
    parent = file.parents.get(call)
    if isinstance(parent, ast.Call):
        return parent.func is call
    if not isinstance(parent, ast.Assign):
        return False
    names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
    attributes = {target.attr for target in parent.targets if isinstance(target, ast.Attribute)}
    uses: list[ast.expr] = [use for name in names for use in file.names.get(name, ())]
    uses += [use for name in attributes for use in file.attributes.get(name, ())]
    parents = ((use, file.parents.get(use)) for use in uses)
    return any(isinstance(parent, ast.Call) and parent.func is use for use, parent in parents)
