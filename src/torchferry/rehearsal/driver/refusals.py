"""What the plugin's own Python refuses: each `raise` and failed `assert` in it, and names that it does not have.

Its files are run as they are, with one change to their syntax trees: what a `raise` raises is told first, and a failing
`assert` raises. Lines stay what they are. The compiled code is kept in torchferry's cache, so that a plugin of a
thousand files starts as quickly as with Python's own.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FrameType, ModuleType
from typing import Any

from torchferry.backends.base import Backend
from torchferry.core import env
from torchferry.rehearsal import events, facade_support
from torchferry.rehearsal.plugin_namespace import error_of_name, is_probe

_TOLD = "__torchferry_refused__"
"""The name under which the plugin's files find what is told; in `builtins`, since each of them is a module."""

_FORM = "1"
"""Raise this when the change to the syntax trees changes."""


def refused(error: Any) -> Any:
    """Tell of an exception that the plugin is about to raise, and return it."""
    kind = error if isinstance(error, type) else type(error)
    frame = sys._getframe(1)
    if issubclass(kind, BaseException) and not issubclass(kind, _NO_REFUSALS) and not _is_asked(frame, kind):
        if events.is_told_in_other_words(frame):
            return error
        text = str(error) if isinstance(error, BaseException) else ""
        with contextlib.suppress(Exception):  # a `__str__` of the plugin's; its exception goes on
            events.refused(text, kind, "plugin")
    return error


_NO_REFUSALS = (StopIteration, StopAsyncIteration, GeneratorExit)


def _is_asked(frame: FrameType, kind: type[BaseException]) -> bool:
    """Whether a name is asked for in vain: of a module that is told by itself, and `hasattr` is no use of it."""
    if not issubclass(kind, AttributeError) or frame.f_code.co_name not in ("__getattr__", "__getattribute__"):
        return False
    return "self" not in frame.f_code.co_varnames or frame.f_back is None or is_probe(frame.f_back)


class _Telling(ast.NodeTransformer):
    """Lets `raise X` be `raise told(X)`, and `assert x, text` be `if not x: raise told(AssertionError(text))`."""

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        """Tell what is raised; a `raise` alone goes on with what was told already."""
        self.generic_visit(node)
        if node.exc is not None:
            node.exc = _told(node.exc)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Tell a condition that does not hold, as long as Python checks them."""
        self.generic_visit(node)
        if sys.flags.optimize:
            return node
        name = ast.copy_location(ast.Name("AssertionError", ast.Load()), node)
        error = ast.copy_location(ast.Call(name, [node.msg] if node.msg is not None else [], []), node)
        failing = ast.copy_location(ast.Raise(_told(error), None), node)
        return ast.copy_location(
            ast.If(ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test), [failing], []), node
        )


def _told(node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(_TOLD, ast.Load()), node), [node], []), node)


class _PluginLoader(SourceFileLoader):
    """Loads a file of the plugin's."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the file; it is kept in our cache, also where the program keeps none of its own."""
        before = sys.pycache_prefix, sys.dont_write_bytecode
        sys.pycache_prefix = str(env.cache_folder() / "rehearsal" / f"plugin-code-{_FORM}")
        sys.dont_write_bytecode = False
        try:
            return super().get_code(fullname)
        finally:
            sys.pycache_prefix, sys.dont_write_bytecode = before

    def source_to_code(  # type: ignore[override]
        self, data: Any, path: Any, *, _optimize: int = -1
    ) -> CodeType:
        """Compile a file with its refusals told."""
        try:
            tree: Any = ast.fix_missing_locations(_Telling().visit(ast.parse(data, str(path))))
        except (SyntaxError, ValueError, RecursionError):
            tree = data  # Python says itself what is wrong with it
        code: CodeType = compile(tree, str(path), "exec", dont_inherit=True, optimize=_optimize)
        return code


class _PluginFinder(MetaPathFinder):
    """Finds the plugin's files, to load them so."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{self._package}.") or path is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        return telling(spec) if spec is not None else None


class _MissingPluginModules(MetaPathFinder):
    """Stands last, and tells of modules of the plugin's that nothing has found."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(f"{self._package}.") and not facade_support.is_module_probe(sys._getframe(1)):
            events.record("missing-api", fullname, error=ModuleNotFoundError)
        return None


def telling(spec: ModuleSpec) -> ModuleSpec:
    """Return where a module of the plugin's is, to be loaded with its refusals told."""
    if type(spec.loader) is SourceFileLoader and spec.origin is not None:
        spec.loader = _PluginLoader(spec.name, spec.origin)
    return spec


def watch_raises(package: str) -> None:
    """Let the package's files tell what they raise, from the next import on."""
    setattr(builtins, _TOLD, refused)
    sys.meta_path.insert(0, _PluginFinder(package))
    sys.meta_path.append(_MissingPluginModules(package))


class _Noting(ModuleType):
    """A module of the plugin's that tells which names it was asked for in vain."""

    is_of_plugin = True

    def __getattr__(self, name: str) -> Any:
        frame = sys._getframe(1)
        if not name.startswith("__") and not is_probe(frame):
            shown = self.__dict__.get("__torchferry_name__", self.__name__)
            events.record("missing-api", f"{shown}.{name}", error=error_of_name(frame))
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)


def watch_names(package: str, backend: type[Backend]) -> None:
    """Let the package's modules tell which names they lack, those that are loaded by now."""
    for name, module in list(sys.modules.items()):
        if (name == package or name.startswith(f"{package}.")) and type(module) is ModuleType:
            home = backend.IMPORT_NAMESPACE
            if backend.NAMESPACE and home and (name == home or name.startswith(f"{home}.")):
                module.__dict__["__torchferry_name__"] = backend.NAMESPACE + name[len(home) :]
            module.__class__ = _Noting
