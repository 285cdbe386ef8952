"""What a package imports when it is requested: by the object that replaces it, by `lazy_loader`, by `__getattr__`.

`from nets import Net` imports a module of the package then, which no statement of the package's own file does.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from torchferry.core.record import NamedTuple
from torchferry.source.exports import inner_statements
from torchferry.source.nodes import nodes_in

MAY_BE_LAZY = (b"sys.modules[__name__]", b"attach", b"__getattr__")
"""What the file of a package holds that may import its parts when these are requested."""

_MOST_STATEMENTS = 50_000


class LazyExports(NamedTuple):
    """What a package imports when it is requested.

    Attributes:
        modules: The module in the package that each name is taken from, or is.
        is_open: Whether there may be more names.
        stars: Modules in the package of which it takes all names.
        stub: Whether a file of types beside the package's own says the names: `attach_stub`.
    """

    modules: Mapping[str, str]
    is_open: bool = False
    stars: tuple[str, ...] = ()
    stub: bool = False


def lazy_exports(tree: ast.Module) -> LazyExports | None:
    """Return what the file of a package says that it imports when it is requested; None where it does not do so.

    `sys.modules[__name__] = _LazyModule(__name__, __file__, {"nets": ["Net"]})`, as transformers does it;
    `__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["nets"], {"nets": ["Net"]})`; a `__getattr__` that
    imports what a table of the module says.
    """
    exports: LazyExports | None = None
    for statement in _own_statements(tree):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            if _is_own_module(statement.targets[0]):
                exports = _of_replaced(tree, statement.value)
            elif _is_attached(statement.value):
                exports = _of_attached(tree, statement.value)
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__getattr__":
            exports = _of_getattr(tree, statement)
        if exports is not None:
            return exports
    return None


def exports_for_types(tree: ast.Module) -> LazyExports:
    """Return what a file tells those who check types: `from .nets import Net`, in a stub or behind `TYPE_CHECKING`."""
    modules: dict[str, str] = {}
    stars: list[str] = []
    for statement in (each for each in _own_statements(tree) if isinstance(each, ast.ImportFrom) and each.level == 1):
        for alias in statement.names:
            if alias.name != "*":
                modules[alias.asname or alias.name] = statement.module or alias.name
            elif statement.module:
                stars.append(statement.module)
    return LazyExports(modules, stars=tuple(stars))


def _own_statements(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements that run when a module is imported, in their order."""
    statements: list[ast.stmt] = []
    waiting = tree.body[::-1]
    while waiting and len(statements) < _MOST_STATEMENTS:
        statement = waiting.pop()
        statements.append(statement)
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += inner_statements(statement)[::-1]
    return statements


def _is_own_module(target: ast.expr) -> bool:
    """Whether an assignment replaces the module that it is in: `sys.modules[__name__] = ...`."""
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Attribute):
        return False
    return target.value.attr == "modules" and isinstance(target.slice, ast.Name) and target.slice.id == "__name__"


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_attached(call: ast.Call) -> bool:
    first = call.args[0] if call.args else None
    return _called(call) in ("attach", "attach_stub") and isinstance(first, ast.Name) and first.id == "__name__"


def _of_replaced(tree: ast.Module, call: ast.Call) -> LazyExports | None:
    """Return what the object that replaces a module imports: of what it is given, a table says it."""
    for given in (*call.args[1:], *(keyword.value for keyword in call.keywords)):
        if isinstance(given, (ast.Dict, ast.Name)):
            table = _WrittenTable(tree, given)
            if table.is_written:
                return LazyExports(_by_name(table), table.is_open)
    is_lazy = "lazy" in _called(call).lower()
    return exports_for_types(tree)._replace(is_open=True) if is_lazy else None


def _of_attached(tree: ast.Module, call: ast.Call) -> LazyExports:
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if _called(call) == "attach_stub":
        return LazyExports({}, stub=True)
    submodules = call.args[1] if len(call.args) > 1 else named.get("submodules")
    attributes = call.args[2] if len(call.args) > 2 else named.get("submod_attrs")
    table = _WrittenTable(tree, attributes) if attributes is not None else None
    listed = _WrittenTable(tree, submodules) if submodules is not None else None
    modules = {name: name for name in listed.texts} if listed is not None else {}
    is_open = any(each is not None and each.is_open for each in (table, listed))
    return LazyExports({**modules, **(_by_name(table) if table is not None else {})}, is_open)


def _of_getattr(tree: ast.Module, function: ast.FunctionDef) -> LazyExports | None:
    """Return what a `__getattr__` imports that looks its module up: `import_module(TABLE[name], __name__)`."""
    parameter = function.args.args[0].arg if function.args.args else ""
    nodes = nodes_in(function)
    if not any(isinstance(each, ast.Call) and _called(each) == "import_module" for each in nodes):
        return None
    for each in (node for node in nodes if isinstance(node, ast.Subscript)):
        if isinstance(each.value, ast.Name) and isinstance(each.slice, ast.Name) and each.slice.id == parameter:
            table = _WrittenTable(tree, each.value)
            modules = {name: values[0].lstrip(".") for name, values in table.values.items() if values}
            return LazyExports(modules, table.is_open) if table.is_written else None
    return None


def _by_name(table: _WrittenTable) -> dict[str, str]:
    """Return the modules by the names that are taken from them, of a table from modules to names."""
    modules = {module.lstrip("."): module.lstrip(".") for module in table.values}
    return modules | {name: module.lstrip(".") for module, names in table.values.items() for name in names}


class _WrittenTable:
    """A table of texts, or a list of them, that a module writes down and adds to.

    Attributes:
        values: The texts that are under each key.
        texts: Those of a list.
        is_written: Whether it is written down at all.
        is_open: Whether something is added that cannot be told.
    """

    def __init__(self, tree: ast.Module, node: ast.expr) -> None:
        self.values: dict[str, list[str]] = {}
        self.texts: list[str] = []
        self.is_written = self.is_open = False
        if not isinstance(node, ast.Name):
            self._take(node)
            return
        for statement in _own_statements(tree):
            self._read(statement, node.id)

    def _read(self, statement: ast.stmt, name: str) -> None:
        """Read what a statement gives a variable, or adds to it."""
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id == name:
                    self._take(statement.value)
                elif isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == name:
                    self._add(target.slice, statement.value)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
            return
        of, given = call.func.value, call.args[0]
        if isinstance(of, ast.Subscript) and getattr(of.value, "id", "") == name:
            self._add(of.slice, given)
        elif getattr(of, "id", "") == name:
            self._take(given)

    def _take(self, value: ast.expr) -> None:
        """Take what a variable is given, or what is added to it."""
        if isinstance(value, ast.Dict):
            self.is_written = True
            for key, each in zip(value.keys, value.values, strict=True):
                self._add(key, each)
        elif isinstance(value, ast.Constant) and value.value is None:
            return
        elif (texts := _texts(value)) is not None:
            self.is_written = True
            self.texts += texts
        else:
            self.is_open = True

    def _add(self, key: ast.expr | None, value: ast.expr) -> None:
        texts = _texts(value)
        if texts is None or not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            self.is_open = True
        else:
            self.values.setdefault(key.value, []).extend(texts)


def _texts(node: ast.expr) -> list[str] | None:
    """Return a text, or the texts of a list, that is written down; None for anything else."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _texts(node.left), _texts(node.right)
        return None if left is None or right is None else left + right
    if not isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return None
    texts = [_texts(each) for each in node.elts]
    return None if None in texts else [text for part in texts if part is not None for text in part]
