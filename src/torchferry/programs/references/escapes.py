"""Functions and classes that are handed away, and what an unnamed call may give them: `NETS[name](fast=True)`.

A parameter that no call in plain sight gives anything has its default, unless the function is called where its name
does not stand: out of a table, by a variable or a parameter, or by a package that it was handed to.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.parameters import PARTIAL, handed_on
from torchferry.programs.syntax.per_file import once_per_file
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_GIVING = frozenset({"args", "kwargs", "inputs", "fn_kwargs", "op_kwargs"})
"""Keywords by which a package is told what to call a function with."""

_ONLY_ASKED = frozenset({"isinstance", "issubclass", "super", "hasattr", "print", "repr", "str", "id", "type", "len",
                         "cast", "TypeVar", "signature", "getsource", "wraps", "update_wrapper"})  # fmt: skip
"""Functions that call nothing of what they are given."""

GIVE_BACK = frozenset({"staticmethod", "compile", "script", "jit", "vmap", "cache", "lru_cache"})
"""Functions that give back what they are given, or what calls it."""

_KEEPING = frozenset({"append", "add", "insert", "setdefault", "register", "extend", "update"})
"""Methods that put what they are given into what they belong to."""

_TAKING = frozenset({"get", "getattr", "next", "pop", "choice"})
"""Functions and methods that may give back what they are given in the place of what they look for."""

_CALLING = frozenset({"target", "func", "fn", "function", "initializer", "callback", "collate_fn", "key", "hook"})
"""Keywords by which a package is told what to call."""

_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias)

_COMMANDS = frozenset({"fire", "typer", "tyro", "jsonargparse", "defopt", "plac", "argh", "clize", "chz", "pyrallis",
                       "draccus", "simple_parsing", "hydra", "absl"})  # fmt: skip
"""Packages that call a function with what the words of the command say."""

_MOST_PARENTS = 6
"""Displays and conditional expressions around a name that are followed to what holds it."""


class Escape(NamedTuple):
    """Where a function is spoken of and not called.

    Attributes:
        line: The line.
        column: The column.
        holder: The name of what holds it, or of what it is handed to; empty where it is unknown.
        is_argument: Whether it is an argument of a call.
        extra: Whether that call says more that the function may be given.
        given: How many values it gives one by one.
    """

    line: int
    column: int
    holder: str
    is_argument: bool = False
    extra: bool = False
    given: int = 0

    @property
    def is_partial(self) -> bool:
        """Whether what it is handed to makes a function that gives more."""
        return self.is_argument and self.holder in PARTIAL


class UnnamedCalls(NamedTuple):
    """What the calls of a file give to what they do not name.

    Attributes:
        keywords: The keywords.
        positions: How many values are given one by one, at most.
        is_open: Whether some give what a table or a list holds.
    """

    keywords: frozenset[str] = frozenset()
    positions: int = 0
    is_open: bool = False

    def may_give(self, name: str, index: int) -> bool:
        """Whether one of them may give a parameter of a name and position something; -1 is no position."""
        return self.is_open or name in self.keywords or 0 <= index < self.positions


def escapes_in(file: PythonFile, names: Names, called: str, function: FunctionNode) -> Iterator[Escape]:
    """Yield where a file speaks of a function, by the name under which it is called, and does not call it."""
    for use in (*file.names.get(called, ()), *file.attributes.get(called, ())):
        parent = file.parents.get(use)
        if not _may_be_defined(names, use):
            continue
        if not isinstance(use.ctx, ast.Load) or isinstance(parent, (ast.Attribute, ast.ClassDef, ast.arg, ast.Compare)):
            continue
        if isinstance(parent, ast.Call) and parent.func is use:
            continue
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.AnnAssign, ast.ExceptHandler, ast.Subscript)):
            if not (isinstance(parent, ast.AnnAssign) and parent.value is use):
                continue  # a decorator, an annotation
        escape = _escape(file, names, use)
        handed = handed_on(file, use, function) if escape is not None and escape.is_argument else None
        if escape is not None and (handed is None or escape.is_partial):
            yield escape


def _may_be_defined(names: Names, use: ast.Name | ast.Attribute) -> bool:
    """Whether a name may be that of a function or class, and no variable or attribute of any object."""
    if isinstance(use, ast.Attribute):
        return names.qualified(use) is not None
    return any(isinstance(each, _DEFINING) for each in names.bindings(use))


def _escape(file: PythonFile, names: Names, use: ast.Name | ast.Attribute) -> Escape | None:
    child: ast.AST = use
    for _ in range(_MOST_PARENTS):
        parent = file.parents.get(child)
        if isinstance(parent, ast.Call):
            if parent.func is child:
                return Escape(use.lineno, use.col_offset, "")
            return _of_argument(names, use, child, parent)
        if isinstance(parent, ast.keyword):
            call = file.parents.get(parent)
            return _of_argument(names, use, parent, call) if isinstance(call, ast.Call) else None
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
            target = target.value if isinstance(target, ast.Subscript) else target
            scope = file.scope(target)
            is_local = isinstance(target, ast.Name) and scope is not file.tree and not isinstance(scope, ast.ClassDef)
            is_member = isinstance(scope, ast.ClassDef) and any(
                last_name(each).endswith("Enum") for each in scope.bases
            )
            held = "value" if is_member else last_name(target)
            return Escape(use.lineno, use.col_offset, "" if is_local else held)
        if isinstance(parent, (ast.Return, ast.Yield, ast.Lambda)):
            around = file.enclosing_function(parent)
            return Escape(use.lineno, use.col_offset, around.name if around is not None else "")
        if isinstance(parent, (ast.For, ast.comprehension)):
            return Escape(use.lineno, use.col_offset, "")
        if isinstance(parent, ast.arguments):
            of = file.parents.get(parent)
            return Escape(use.lineno, use.col_offset, of.name if isinstance(of, FunctionNode) else "")
        if not isinstance(parent, (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.IfExp, ast.BoolOp, ast.Starred)):
            return None
        child = parent
    return None


def _of_argument(names: Names, use: ast.Name | ast.Attribute, child: ast.AST, call: ast.Call) -> Escape | None:
    kind = last_name(call.func)
    package = (names.qualified(call.func) or "").partition(".")[0]
    if kind in _ONLY_ASKED or package in _COMMANDS:
        return None
    if kind in _KEEPING and isinstance(call.func, ast.Attribute) and package != "atexit":
        return Escape(use.lineno, use.col_offset, last_name(call.func.value))
    if kind in _TAKING:
        return Escape(use.lineno, use.col_offset, "")
    bindings = names.bindings(call.func) if isinstance(call.func, ast.Name) else []
    if any(isinstance(each, ast.Name) for each in bindings):  # what a variable holds may keep it, or call it
        return Escape(use.lineno, use.col_offset, "", True)
    if isinstance(child, ast.keyword) and child.arg is not None and child.arg not in _CALLING and kind[:1].isupper():
        return Escape(use.lineno, use.col_offset, child.arg)
    behind = call.args[call.args.index(child) + 1 :] if child in call.args else ()
    extra = bool(behind) or any(keyword.arg in _GIVING for keyword in call.keywords)
    return Escape(use.lineno, use.col_offset, kind, True, extra, len(behind))


@once_per_file
def unnamed_calls(file: PythonFile, names: Names) -> UnnamedCalls:
    """Return what the calls of a file give to what a table, a variable or a parameter holds."""
    calls = [each for each in file.parents if isinstance(each, ast.Call)]  # bindings may add to what is gone through
    return _given_by(file, names, [call for call in calls if _is_unnamed(file, names, call.func)])


def calls_of_holder(file: PythonFile, names: Names, holder: str) -> UnnamedCalls:
    """Return what the calls of a file give to an attribute or variable of a name, as `self.net(...)` does."""
    uses = (*file.names.get(holder, ()), *file.attributes.get(holder, ())) if holder else ()
    parents = ((use, file.parents.get(use)) for use in uses)
    return _given_by(file, names, [call for use, call in parents if isinstance(call, ast.Call) and call.func is use])


def _given_by(file: PythonFile, names: Names, calls: list[ast.Call]) -> UnnamedCalls:
    keywords: set[str] = set()
    positions, is_open = 0, False
    for call in calls:
        positions = max(positions, len(call.args))
        for keyword in call.keywords:
            keys = {keyword.arg} if keyword.arg is not None else _keys_of(file, names, keyword.value)
            keywords |= keys or set()
            is_open |= keys is None
        is_open |= any(isinstance(value, ast.Starred) for value in call.args)
    return UnnamedCalls(frozenset(keywords), positions, is_open)


def _keys_of(file: PythonFile, names: Names, table: ast.expr, depth: int = 0) -> set[str] | None:
    """Return the keys of a table that is written down, also where variables hold it; None for any other one."""
    if isinstance(table, ast.Dict):
        texts = {None if key is None else string_value(key) for key in table.keys}
        return None if None in texts else {text for text in texts if text is not None}
    if isinstance(table, ast.Call) and last_name(table.func) == "dict" and not table.args:
        given = {keyword.arg for keyword in table.keywords}
        return None if None in given else {name for name in given if name is not None}
    if not isinstance(table, ast.Name) or depth > _MOST_PARENTS or _is_changed(file, table):
        return None
    values = [assigned_value(file, binding) for binding in names.reaching_bindings(table)]
    keys_of_values = [None if value is None else _keys_of(file, names, value, depth + 1) for value in values]
    return (
        None if not keys_of_values or None in keys_of_values else {key for keys in keys_of_values for key in keys or ()}
    )


def _is_changed(file: PythonFile, table: ast.Name) -> bool:
    """Whether a function puts more into a table that a variable holds, or hands it on."""
    around = file.enclosing_function(table)
    for use in file.names.get(table.id, ()):
        parent = file.parents.get(use)
        if file.enclosing_function(use) is around and isinstance(use.ctx, ast.Load):
            is_call = isinstance(parent, ast.Call) and use in parent.args
            if is_call or (isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)):
                return True
            if isinstance(parent, ast.Attribute) and parent.attr in ("update", "setdefault"):
                return True
    return False


def _is_unnamed(file: PythonFile, names: Names, callee: ast.expr) -> bool:
    if isinstance(callee, ast.Name):
        if hasattr(builtins, callee.id):
            return False
        bindings = names.bindings(callee)
        return bool(bindings) and not any(isinstance(each, _DEFINING) for each in bindings)
    if isinstance(callee, ast.Attribute):
        stored = file.attributes.get(callee.attr, ())
        values = (file.parents.get(each) for each in stored if isinstance(each.ctx, ast.Store))
        return any(isinstance(each, ast.Assign) and isinstance(each.value, ast.Name) for each in values)
    return isinstance(callee, (ast.Subscript, ast.Call, ast.NamedExpr, ast.IfExp, ast.BoolOp))
