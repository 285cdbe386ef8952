"""The source of a program that ended in an error: parsed, never run, and asked about the line where it ended."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

from torchferry.backends import cuda

_LONGEST = 2_000_000
"""Characters of a source that are looked at."""

_NOT_THE_PROGRAMS = frozenset({"torch", "torchferry", *sys.stdlib_module_names})

_LOADERS = frozenset({"load", "load_inline", "load_library", "import_module", "CDLL", "LoadLibrary"})
"""Functions that load an extension."""

_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Frame(NamedTuple):
    """One frame of a traceback."""

    file: str
    line: int
    frame: FrameType


def shown(file: str) -> str:
    """Return a file as messages name it: from the working folder on where it lies below."""
    return os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file


def read(file: str) -> Program | None:
    """Return the source of a file; None where there is none, or where it is very long."""
    source = "".join(linecache.getlines(file))
    return Program(ast.parse(source)) if 0 < len(source) <= _LONGEST else None


def frames_of_program(error: BaseException) -> list[Frame]:
    """Return the frames that are neither torch's, nor Python's, nor ours, the innermost first."""
    frames: list[Frame] = []
    at = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _NOT_THE_PROGRAMS and not frame.f_code.co_filename.startswith("<"):
            frames.insert(0, Frame(frame.f_code.co_filename, at.tb_lineno, frame))
        at = at.tb_next
    return frames


class Program:
    """The source of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}

    def guard_of(self, line: int, leaving: bool = False) -> int:
        """Return the line of the guard that asks for CUDA and led to `line`; 0 for none.

        Args:
            line: Where the program ended.
            leaving: Whether a guard counts that would have left the block before it, as `assert` does.
        """
        node: ast.AST | None = self.statement_at(line)
        while node is not None:
            parent = self._parents.get(node)
            if isinstance(parent, (ast.If, ast.IfExp)) and node is not parent.test and self._asks(parent.test):
                return parent.lineno
            for before in _before(parent, node) if leaving else ():
                test = before.test if isinstance(before, (ast.If, ast.Assert)) else None
                leaves = isinstance(before, ast.Assert) or (isinstance(before, ast.If) and _leaves(before))
                if test is not None and leaves and self._asks(test):
                    return before.lineno
            node = parent
        return 0

    def extension_of(self, name: str) -> tuple[str, int] | None:
        """Return the extension that `name` stands for where it was imported or loaded, and the line."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    if (alias.asname or alias.name.partition(".")[0]) == name:
                        module = getattr(node, "module", None)
                        return (alias.name if module is None else f"{module}.{alias.name}"), node.lineno
            elif isinstance(node, ast.Assign) and any(_is_name(target, name) for target in node.targets):
                loaded = _loaded(node.value)
                if loaded is not None:
                    return loaded or name, node.lineno
        return None

    def imported_at(self, line: int) -> str:
        """Return what the statement at `line` imports; empty where it imports nothing."""
        node = self.statement_at(line)
        if isinstance(node, ast.Import):
            return node.names[0].name
        if isinstance(node, ast.ImportFrom):
            return f"{node.module}.{node.names[0].name}" if node.module else node.names[0].name
        return ""

    def loaded_at(self, line: int) -> str:
        """Return the extension that the statement at `line` loads; empty for none."""
        for node in ast.walk(self.statement_at(line) or ast.Pass()):
            loaded = _loaded(node)
            if loaded:
                return loaded
        return ""

    def used_at(self, line: int) -> Iterator[str]:
        """Yield the names whose attribute the statement at `line` takes, or that it calls."""
        for node in ast.walk(self.statement_at(line) or ast.Pass()):
            owner = node.value if isinstance(node, ast.Attribute) else node.func if isinstance(node, ast.Call) else None
            if isinstance(owner, ast.Name):
                yield owner.id

    def statement_at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that stands at `line`."""
        innermost = None
        for node in ast.walk(self.tree):  # outer ones come first
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                innermost = node
        return innermost

    def _asks(self, test: ast.expr, depth: int = 2) -> bool:
        """Whether a condition asks for CUDA, by itself or by a name that was given such a question."""
        for node in ast.walk(test):
            if isinstance(node, ast.Attribute) and (
                path_of(node).startswith(f"{cuda.NAMESPACE}.") or node.attr == "is_cuda"
            ):
                return True
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.startswith(cuda.DEVICE_TYPE)
            ):
                return True
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name and (cuda.DEVICE_TYPE in name.lower() or (depth and self._given_a_question(name, depth - 1))):
                return True
        return False

    def _given_a_question(self, name: str, depth: int) -> bool:
        return any(
            isinstance(node, ast.Assign)
            and any(path_of(target).rpartition(".")[2] == name for target in node.targets)
            and self._asks(node.value, depth)
            for node in ast.walk(self.tree)
        )


def _before(parent: ast.AST | None, node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements before `node` in its block."""
    for _, block in ast.iter_fields(parent) if parent is not None else ():
        if isinstance(block, list) and node in block:
            yield from (statement for statement in block[: block.index(node)] if isinstance(statement, ast.stmt))


def _leaves(guard: ast.If) -> bool:
    last = guard.body[-1]
    return isinstance(last, _ENDS) or (isinstance(last, ast.Expr) and path_of_call(last.value).endswith("exit"))


def _loaded(node: ast.AST) -> str | None:
    """Return the name of the extension that a call loads, or empty where it is computed; None for another node."""
    if not isinstance(node, ast.Call) or path_of_call(node).rpartition(".")[2] not in _LOADERS:
        return None
    given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
    names = [
        argument.value for argument in given if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    return names[0] if names else ""


def path_of_call(node: ast.AST) -> str:
    """Return the dotted name of what a call calls; empty for another node."""
    return path_of(node.func) if isinstance(node, ast.Call) else ""


def path_of(node: ast.AST) -> str:
    """Return the dotted name that an expression spells; empty where it is none."""
    if isinstance(node, ast.Attribute):
        return f"{path_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
