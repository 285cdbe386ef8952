"""The paths that expressions name: of files that a program opens."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable

from torchferry.programs.evaluation.program_facts import ProgramFacts
from torchferry.programs.imports.settings_classes import FROM_ROOT
from torchferry.programs.options.answers import DefaultValue
from torchferry.programs.syntax.parameters import Expression, Parameter, function_of
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import assigned_value

_DEEPEST = 24
_DEEPEST_VALUE = 8

_PATHS = frozenset({"Path", "str", "abspath", "realpath", "expanduser", "normpath", "resolve", "absolute", "as_posix",
                    "fspath", "open", "read_text", "read", "to_absolute_path", "PurePath", "read_bytes"})  # fmt: skip
"""Functions and methods that give back a file, or the path of it, that they are given."""


class PathValues:
    """Reads paths, for one program.

    Args:
        facts: What depends on the program.
        value: Returns the value of an expression.
    """

    def __init__(self, facts: ProgramFacts, value: Callable[[Expression, int], DefaultValue]) -> None:
        self._facts = facts
        self._sources = facts.sources
        self._value = value

    def of(self, where: Expression, depth: int) -> str | None:
        """Return the path that an expression names, or the file at it that is opened; None if it is unknown."""
        node = where.node
        if not self._facts.goes_on(depth, _DEEPEST):
            return None
        if isinstance(node, ast.Name):
            if node.id == "__file__" and not where.names.bindings(node):
                return FROM_ROOT + where.file.path
            bindings = where.names.reaching_bindings(node)
            parent = where.file.parents.get(bindings[0]) if len(bindings) == 1 else None
            if isinstance(parent, ast.withitem):
                return self.of(where.part(parent.context_expr), depth + 1)
            value = assigned_value(where.file, bindings[0]) if len(bindings) == 1 else None
            if value is not None:
                return self.of(where.part(value), depth + 1)
            if len(bindings) == 1 and isinstance(bindings[0], ast.arg):
                function = function_of(where.file, bindings[0])
                key = Parameter(where.file.path, function.lineno if function is not None else 0, node.id)
                if key in where.given:
                    return self.of(where.given[key], depth + 1)
        if isinstance(node, ast.Call):
            return self._of_call(where, node, depth + 1)
        if isinstance(node, ast.Attribute) and node.attr == "parent":
            inner = self.of(where.part(node.value), depth + 1)
            return None if inner is None else _folder(inner)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Add)):
            left, right = (self.of(where.part(part), depth + 1) for part in (node.left, node.right))
            if left is None or right is None:
                return None
            return posixpath.join(left, right) if isinstance(node.op, ast.Div) else left + right
        if isinstance(node, ast.JoinedStr):
            parts = [self.of(where.part(part.value if isinstance(part, ast.FormattedValue) else part), depth + 1)
                     for part in node.values]  # fmt: skip
            return None if any(part is None for part in parts) else "".join(map(str, parts))
        text_value = self._value(where, min(depth, _DEEPEST_VALUE))
        return text_value.value if isinstance(text_value.value, str) else None

    def _of_call(self, where: Expression, node: ast.Call, depth: int) -> str | None:
        name = last_name(node.func)
        inner = node.args[0] if node.args else None
        if inner is None or (name in ("read", "open", "read_text") and isinstance(node.func, ast.Attribute)):
            inner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if name == "open" and node.args and not isinstance(node.args[0], ast.Constant):
                inner = node.args[0]  # io.open(path), codecs.open(path)
        if inner is None:
            return None
        if name == "files":  # of importlib.resources
            package = self._value(where.part(inner), min(depth, _DEEPEST_VALUE)).value
            own = self._sources.project.module_path(package, where.file.path) if isinstance(package, str) else None
            return FROM_ROOT + posixpath.dirname(own) if own is not None else None
        if name == "joinpath" and isinstance(node.func, ast.Attribute):
            parts = [self.of(where.part(part), depth) for part in (node.func.value, *node.args)]
            return None if any(part is None for part in parts) else posixpath.join(*map(str, parts))
        if name == "join":
            parts = [self.of(where.part(part), depth) for part in node.args]
            return None if any(part is None for part in parts) else posixpath.join(*map(str, parts))
        if name == "dirname":
            path = self.of(where.part(inner), depth)
            return None if path is None else _folder(path)
        if name in _PATHS:
            path = self.of(where.part(inner), depth)
            more = node.args[1:] if name in ("Path", "PurePath") else []
            parts = [path, *(self.of(where.part(part), depth) for part in more)]
            return None if any(part is None for part in parts) else posixpath.join(*map(str, parts))
        value = self._value(where, min(depth, _DEEPEST_VALUE))
        return value.value if isinstance(value.value, str) else None


def _folder(path: str) -> str:
    if path.startswith(FROM_ROOT):
        return FROM_ROOT + posixpath.dirname(path.removeprefix(FROM_ROOT))
    return posixpath.dirname(path)
