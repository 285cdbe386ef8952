"""What a place where a name is spoken of is, by the syntax around it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.model import Reachability
from torchferry.source.flow.syntax import callee, last_name
from torchferry.source.names import Names
from torchferry.source.nodes import children_of, nodes_in
from torchferry.source.python import PythonFile

_NOT_A_USE = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Delete)


def is_same_place(binding: ast.AST, unit: ast.AST) -> bool:
    """Whether two nodes are one definition, perhaps parsed twice."""
    return binding is unit or (
        isinstance(binding, type(unit)) and getattr(binding, "lineno", 0) == getattr(unit, "lineno", 1)
    )


def is_registering(decorator: ast.AST) -> bool:
    """Whether a decorator is a method of a registry, such as `@MODELS.register_module()`."""
    return any(
        "regist" in last_name(node).lower()
        for node in nodes_in(decorator)
        if isinstance(node, (ast.Attribute, ast.Name))
    )


def derived_class(file: PythonFile, use: ast.AST) -> ast.ClassDef | None:
    """Return the class that a use of a name is a base of, or None."""
    parent = file.parents.get(use)
    return parent if isinstance(parent, ast.ClassDef) and use in parent.bases else None


def applied_as(file: PythonFile, use: ast.AST) -> ast.Name | None:
    """Return the name that represents a function of autograd from here on, or None: `align = Align.apply`."""
    attribute = file.parents.get(use)
    if not isinstance(attribute, ast.Attribute) or attribute.attr != "apply":
        return None
    statement = file.parents.get(attribute)
    if not isinstance(statement, ast.Assign) or file.parents.get(statement) is not file.tree:
        return None
    target = statement.targets[0]
    return target if len(statement.targets) == 1 and isinstance(target, ast.Name) else None


_EVENTS = frozenset({"signal.signal"})
_HOOKS = frozenset({"sys.excepthook", "sys.unraisablehook", "threading.excepthook"})
"""What Python calls where something happens that no program waits for."""


def may_never_run(file: PythonFile, names: Names, use: ast.AST, unit: ast.AST) -> bool:
    """Whether nobody knows if a function is run that is used: for a signal, a failure, or values that nobody takes."""
    parent = file.parents.get(use)
    if isinstance(parent, ast.Call) and use in parent.args:
        return names.qualified(parent.func) in _EVENTS
    if isinstance(parent, ast.Assign) and parent.value is use:
        return any(names.qualified(target) in _HOOKS for target in parent.targets)
    statement = file.parents.get(parent) if isinstance(parent, ast.Call) else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if isinstance(target, ast.Name):
        return _yields(unit) and not names.uses_of(target)
    return isinstance(statement, ast.Expr) and _yields(unit)


def _yields(unit: ast.AST) -> bool:
    """Whether a function gives values one after the other, and runs as far as they are taken."""
    if not isinstance(unit, ast.FunctionDef) or unit.decorator_list:
        return False
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in run_with(unit.body))


def run_with(statements: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Yield statements and what is run with them: not the bodies of functions that they define."""
    todo: list[ast.AST] = [*statements]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            todo += children_of(node)


def is_inside(file: PythonFile, node: ast.AST, defining: PythonFile, unit: ast.AST) -> bool:
    """Whether a node is in a function or class itself."""
    if file.path != defining.path:
        return False
    parent = file.parents.get(node)
    while parent is not None:
        if is_same_place(parent, unit) and type(parent) is type(unit):
            return True
        parent = file.parents.get(parent)
    return False


def is_use(file: PythonFile, node: ast.AST) -> bool:
    """Whether a name that is read is used: not in an annotation, an `isinstance`, an `except`, or `super`."""
    child, parent = node, file.parents.get(node)
    while parent is not None and not isinstance(parent, ast.stmt):
        if isinstance(parent, ast.arg):
            return False
        if (
            isinstance(parent, ast.Call)
            and last_name(parent.func) in ("isinstance", "issubclass", "super")
            and child in parent.args
        ):
            return False
        child, parent = parent, file.parents.get(parent)
    if isinstance(parent, ast.AnnAssign) and child is parent.annotation:
        return False
    if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and child is parent.returns:
        return False
    return not isinstance(parent, _NOT_A_USE)


def is_export_list(file: PythonFile, node: ast.AST) -> bool:
    """Whether a list or tuple is that of `__all__`."""
    parent = file.parents.get(node)
    return isinstance(parent, (ast.Assign, ast.AugAssign)) and any(
        last_name(target) == "__all__"
        for target in (parent.targets if isinstance(parent, ast.Assign) else [parent.target])
    )


COMMANDS = frozenset(
    {
        "command", "callback", "route", "get", "post", "put", "patch", "delete", "websocket", "middleware", "task",
        "entrypoint", "cli", "ex", "on_message", "on_chat_start",
    }
)  # fmt: skip
"""Decorators of libraries that call a function for a command, a request or a message."""

RUN_WHEN_SERVED = frozenset({"on_event", "before_serving", "while_serving"})
"""Decorators by which a web application calls a function when it is started."""

_WRAPPING = frozenset({
    "capture", "config", "named_config", "command", "group", "callback", "register", "setter", "getter", "deleter",
})  # fmt: skip
"""Methods that give back what they are given, or that are looked at otherwise."""


def is_kept_by_object(
    file: PythonFile, names: Names, unit: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
) -> bool:
    """Whether a decorator hands a function to an object, which may call it: `@app.on_exit`, `@bot.reply("x")`."""
    for decorator in unit.decorator_list:
        method = callee(decorator)
        if not isinstance(method, ast.Attribute) or method.attr in _WRAPPING:
            continue
        owner = method.value
        if not isinstance(owner, ast.Name) or names.qualified(method) is not None:
            continue
        if any(not isinstance(each, (ast.alias, ast.FunctionDef, ast.ClassDef)) for each in names.bindings(owner)):
            return True
    return False


_CASES = ("unittest.TestCase", "unittest.IsolatedAsyncioTestCase")


def runs_tests(
    file: PythonFile, names: Names, unit: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
) -> list[ast.Call]:
    """Return where a file has a test runner call what it defines: `unittest.main()`, `pytest.main([__file__])`."""
    if isinstance(unit, ast.ClassDef):
        runner = "unittest.main" if any(names.qualified(base) in _CASES for base in unit.bases) else ""
    else:
        runner = "pytest.main" if unit.name.startswith("test") and file.parents.get(unit) is file.tree else ""
    return [call for call in file.calls_by_name("main") if runner and names.qualified(call.func) == runner]


class Place(NamedTuple):
    """Where the search stands: a node of a file, None for the file as a whole."""

    path: str
    node: ast.AST | None
    through: ast.AST | None = None
    """The import that binds the name which is used there, where it is inside of something."""


class Use(NamedTuple):
    """Where a function or class is spoken of, and what must be said or chosen for it to be meant.

    `test` is the condition that a look-up in a table asks for it, and `also` are conditions in other places, with
    their files and the values that they must have; of `others` one must be said. Of `makers`, where there are any, one
    must be a file of the program: those that make objects of the classes that mean it. Where `settings` names a file,
    that says it, so that a program which reads others does not mean it.
    """

    place: Place
    reachability: Reachability = Reachability.ALWAYS
    choice: str = ""
    option: str = ""
    test: ast.Compare | None = None
    others: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    also: tuple[tuple[str, ast.expr, bool], ...] = ()
    settings: str = ""
