"""What a module passes on: the names that it binds, what each of them represents, and its `__all__`.

`from common import *` and `common.torch.cuda` mean what the module `common` makes of them. Only statements that run
when the module is imported bind its names: those in `if`, `try`, `with` and loops do, those in functions and classes do
not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.lines import line_matches


class ModuleExports(NamedTuple):
    """The names of one module.

    Attributes:
        origins: What each name may represent by the module's imports and aliases, as `Project` takes names; empty for
            what the module itself defines.
        stars: The modules of its `from module import *`, in their order.
        declared: The names in `__all__`; None where the module has none.
        is_open: Whether there may be more names: `__all__` is computed, or the module has a `__getattr__` or fills its
            `globals()`.
    """

    origins: Mapping[str, tuple[str, ...]]
    stars: tuple[str, ...] = ()
    declared: tuple[str, ...] | None = None
    is_open: bool = False

    def by_star(self, name: str) -> bool:
        """Whether a star import takes a name that the module binds."""
        if self.declared is not None and name in self.declared:
            return True
        return not name.startswith("_") and (self.declared is None or self.is_open)


def module_exports(tree: ast.Module, path: str) -> ModuleExports:
    """Return what a module passes on.

    Args:
        tree: Its syntax tree.
        path: Its file, relative to the project's root.
    """
    return _ExportReader(path).read(tree)


_DOT_OF_FOLDER = "\N{ONE DOT LEADER}"
"""Stands in a dotted module for a dot in the name of a folder that relative imports lead to: `third_party/gym-0.21`."""


def absolute_module(module: str, importer: str) -> str:
    """Return a module name as `Project` takes it: relative ones as a path from the root behind a dot."""
    level = len(module) - len(module.lstrip("."))
    if not level:
        return module
    parts = [dotted(part) for part in importer.split("/")[:-level]]
    rest = module[level:]
    return "." + ".".join([*parts, rest] if rest else parts)


def dotted(path: str) -> str:
    """Return a path without an ending as a dotted module."""
    return path.replace(".", _DOT_OF_FOLDER).replace("/", ".")


def path_of_dotted(module: str) -> str:
    """Return the path, without an ending, that a dotted module is from where it is looked for."""
    return module.lstrip(".").replace(".", "/").replace(_DOT_OF_FOLDER, ".")


class _ExportReader:
    """Reads the statements of a module in their order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._origins: dict[str, tuple[str, ...]] = {}
        self._stars: list[str] = []
        self._declared: list[str] | None = None
        self._is_open = False

    def read(self, tree: ast.Module) -> ModuleExports:
        self._block(tree.body)
        declared = None if self._declared is None else tuple(dict.fromkeys(self._declared))
        return ModuleExports(self._origins, tuple(self._stars), declared, self._is_open)

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        waiting = list(statements)[::-1]
        while waiting:
            statement = waiting.pop()
            self._statement(statement)
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                waiting += inner_statements(statement)[::-1]

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self._bind(alias.asname or top, alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom):
            self._from_import(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._is_open |= node.name == "__getattr__"
            self._bind(node.name, "")
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            self._assign(node.target, node.value, adds=isinstance(node, ast.AugAssign))
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._assign(node.target, None)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self._assign(item.optional_vars, None)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._origins.pop(target.id, None)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(node.value)

    def _bind(self, name: str, origin: str) -> None:
        """Bind a name; what it may represent stays with it where another branch gives it something else."""
        held = self._origins.get(name, ())
        self._origins[name] = held if not origin or origin in held else (*held, origin)

    def _from_import(self, node: ast.ImportFrom) -> None:
        module = absolute_module("." * node.level + (node.module or ""), self._path)
        for alias in node.names:
            if alias.name == "*":
                self._stars.append(module)
            else:
                self._bind(alias.asname or alias.name, f"{module}.{alias.name}")

    def _assign(self, target: ast.expr | None, value: ast.expr | None, adds: bool = False) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr] = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            alike = len(values) == len(target.elts)
            for number, each in enumerate(target.elts):
                self._assign(each, values[number] if alike else None)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, None)
        elif isinstance(target, ast.Name):
            if target.id == "__all__":
                self._declare(value, adds)
            self._bind(target.id, "" if value is None else self._dotted(value))
        elif isinstance(target, ast.Subscript) and _is_globals(target.value):
            self._is_open = True

    def _dotted(self, value: ast.expr) -> str:
        """Return what `torch.cuda` represents in `cuda = torch.cuda`; empty where that is no import."""
        attributes: list[str] = []
        while isinstance(value, ast.Attribute):
            attributes.append(value.attr)
            value = value.value
        origins = self._origins.get(value.id, ()) if isinstance(value, ast.Name) else ()
        return ".".join((origins[0], *reversed(attributes))) if origins else ""

    def _call(self, call: ast.Call) -> None:
        function = call.func
        if not isinstance(function, ast.Attribute):
            return
        if isinstance(function.value, ast.Name) and function.value.id == "__all__":
            argument = call.args[0] if len(call.args) == 1 else None
            if function.attr == "append" and argument is not None:
                self._declare(ast.List(elts=[argument], ctx=ast.Load()), adds=True)
            else:
                self._declare(argument if function.attr == "extend" else None, adds=True)
        elif _is_globals(function.value) and function.attr in ("update", "setdefault"):
            self._is_open = True

    def _declare(self, value: ast.expr | None, adds: bool) -> None:
        """Read what `__all__` is given, or what is added to it."""
        if not adds or self._declared is None:
            self._declared = []
        parts = [value]
        while parts:
            part = parts.pop()
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
                parts += [part.left, part.right]
            elif isinstance(part, (ast.List, ast.Tuple, ast.Set)):
                for each in part.elts:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        self._declared.append(each.value)
                    elif isinstance(each, ast.Starred):
                        parts.append(each.value)
                    else:
                        self._is_open = True
            elif not (isinstance(part, ast.Name) and part.id == "__all__"):
                self._is_open = True


def inner_statements(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements of a compound statement that run in the same scope."""
    inner: list[ast.stmt] = []
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        for each in getattr(node, field, ()):
            inner += each.body if isinstance(each, (ast.ExceptHandler, ast.match_case)) else [each]
    return inner


def _is_globals(node: ast.expr) -> bool:
    """Whether an expression is the names of the module: `globals()`, and `vars()` at its top."""
    is_call = isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Name)
    return is_call and node.func.id in ("globals", "vars", "locals")  # type: ignore[attr-defined]


_IMPORT_LINE = lazy_regex(r"^[^\n#]*?\bimport\b(?:[^\n(\\]|\\\r?\n|\([^)]*\))*", re.MULTILINE)
_ALIAS_LINE = lazy_regex(r"^(?P<names>[\w, \t]+)(?::[^=\n]*)?=[ \t]*(?:[A-Za-z_(\[]|[^ \t\n=,][^\n=,]*,)", re.MULTILINE)
_WORD = lazy_regex(r"[\w*]+")


def words_passed_on(text: str) -> frozenset[str]:
    """Return the words by which a module may bind what it imports: too many rather than too few.

    Parsing every module that another one imports from would cost more than all else.
    """
    words = words_imported(text)
    for match in line_matches(_ALIAS_LINE, "=", text):
        words.update(_WORD.findall(match["names"]))
    return frozenset(words)


def words_imported(text: str) -> set[str]:
    """Return the words in the import statements of a module: too many rather than too few."""
    words: set[str] = set()
    for match in line_matches(_IMPORT_LINE, "import", text):
        words.update(_WORD.findall(match[0]))
    return words
