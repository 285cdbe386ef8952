"""Code that reaches a compiled extension, and so runs CUDA kernels.

That is a module of the project that has no Python file, one that its build script compiles, one that was loaded by
`cpp_extension.load`, or a distribution that consists of kernels.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache

from torchferry.backends import cuda
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

_DEPTH = 3
"""How many of the project's own functions are looked into on the way to a kernel."""

_COMPILED_NAME = lazy_regex(r"(?:^|_)(?:C|c|ext|cuda|kernels?|cpp)(?:$|_|\d)")
_LOADERS = frozenset({"load", "load_inline", "load_ext", "get_plugin", "load_extension", "compile_extension"})


class KernelReach:
    """Whether code of one file reaches a compiled extension; what was asked before is not looked at again."""

    def __init__(self, file: PythonFile, names: Names, project: Project | None) -> None:
        self.file = file
        self.names = names
        self.project = project
        self._from: dict[tuple[ast.AST, int], bool] = {}
        self._others: dict[str, KernelReach] = {}

    def any(self, nodes: Sequence[ast.AST], depth: int) -> bool:
        """Whether one of some nodes reaches one: all of a block or of a condition from one of its parts on.

        Of a function that is left early at many places, each has all behind it for an answer, which is looked at once.
        """
        reaches = False
        passed: list[tuple[ast.AST, int]] = []
        for node in nodes:
            node_reaches = self._from.get((node, depth))
            if node_reaches is None:
                passed.append((node, depth))
                node_reaches = any(
                    self._call(call.func, depth) for call in nodes_in(node) if isinstance(call, ast.Call)
                )
                if not node_reaches:
                    continue
            reaches = node_reaches
            break
        self._from.update(dict.fromkeys(passed, reaches))
        return reaches

    def _call(self, func: ast.expr, depth: int) -> bool:
        root = func
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        return any(self._binding(binding, depth) for binding in self.names.bindings(root)) or (
            self._imported(func, depth)
        )

    def _binding(self, binding: ast.AST, depth: int) -> bool:
        if isinstance(binding, ast.alias):
            return self.is_extension(binding)
        if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return depth < _DEPTH and self.any(binding.body, depth + 1)
        value = assigned_value(self.file, binding)
        if isinstance(value, ast.Call):
            return _callee(value) in _LOADERS
        return False

    def _imported(self, func: ast.expr, depth: int) -> bool:
        """Follow a function or class of the project into the file that defines it."""
        name = self.names.qualified(func)
        if name is None or self.project is None or depth >= _DEPTH:
            return False
        while name.strip("."):
            located = self.project.definition(name, self.file.path)
            if located is not None:
                file, names, definition = located
                body = getattr(definition, "body", [])
                if file.path not in self._others:
                    self._others[file.path] = KernelReach(file, names, self.project)
                return self._others[file.path].any(body, depth + 1)
            name = name.rpartition(".")[0]
        return False

    def is_extension(self, alias: ast.alias) -> bool:
        """Whether an import names a compiled extension."""
        statement = self.file.parents[alias]
        if isinstance(statement, ast.Import):
            module = alias.name
        else:
            assert isinstance(statement, ast.ImportFrom)
            module = self.names.imported_module(statement)
        top = module.lstrip(".").partition(".")[0]
        if not module.startswith(".") and top in kernel_modules():
            return True
        if self.project is None:
            return False
        if top in self.project.extensions or alias.name in self.project.extensions:
            return True
        if "_ext" in module.split("."):  # where `torch.utils.ffi` puts what it builds, files to load it beside
            return True
        name = alias.name if isinstance(statement, ast.ImportFrom) else module.rpartition(".")[2]
        whole = f"{module}.{alias.name}" if isinstance(statement, ast.ImportFrom) else module
        inside = module.startswith(".") or self.project.module_path(top, self.file.path) is not None
        return (
            inside
            and _COMPILED_NAME.search(name) is not None  # ahead of what may have to parse another file
            and self.project.module_path(whole, self.file.path) is None
            and (isinstance(statement, ast.Import) or not self._defined(module, alias.name))
        )

    def _defined(self, module: str, name: str) -> bool:
        assert self.project is not None
        path = self.project.module_path(module, self.file.path)
        loaded = self.project.file(path) if path is not None else None
        return loaded is not None and bool(loaded[1].module_bindings(name))


def _callee(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


@lru_cache(maxsize=1)
def kernel_modules() -> frozenset[str]:
    """Return the top-level modules of distributions that consist of CUDA kernels."""
    return frozenset(
        module for package in cuda.packages().values() if package.kind == "kernels" for module in package.modules
    )
