"""Serves migrated copies of installed modules in the place of the originals; everything else stays as it is installed.

torchferry wrote this file. It is for Python 3.8 and later and imports nothing but Python's own library. With the folder
that holds it on PYTHONPATH, `import PACKAGE` comes here first: the package is then loaded from where it is installed,
and those of its modules that the manifest names from the copies beside this file. Processes that a program starts get
PYTHONPATH too. A copy is served only for the version and the file that it was made from.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import json
import os
import sys
from functools import cache
from types import CodeType, ModuleType
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))

_checked: set[str] = set()
_ADVICE = "Make the folder anew (`torchferry undo`, then `torchferry migrate --overlay`), or take it out of PYTHONPATH"


class OverlayError(RuntimeError):
    """A copy does not fit what is installed. It is no ImportError, which programs take for a package that is absent."""


def serve(name: str) -> None:
    """Load the package that is being imported as `name` from where it is installed; called by the files beside this."""
    _install()
    module: Any = sys.modules[name]
    spec: Any = _spec(name, None)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module.__spec__ = spec
    module.__loader__ = spec.loader
    module.__file__ = spec.origin
    module.__package__ = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
    if spec.cached:
        module.__cached__ = spec.cached
    spec._initializing = True
    try:
        spec.loader.exec_module(module)
    finally:
        spec._initializing = False


@cache
def _packages() -> dict[str, Any]:
    """Return what the manifest has of each package."""
    with open(os.path.join(HERE, "torchferry-overlay.json"), encoding="utf-8") as file:
        return {package["package"]: package for package in json.load(file)["packages"]}


@cache
def _modules() -> dict[str, Any]:
    """Return what the manifest has of each module that has a copy, with its package."""
    return {module["module"]: (package, module) for package in _packages().values() for module in package["modules"]}


class _OverlayFinder:
    """Finds the packages that have copies, where they are installed, and the copies of their modules."""

    @staticmethod
    def find_spec(
        name: str, path: Any | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in _packages() or name in _modules():
            return _spec(name, path)
        return None


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs a copy as the original: `__file__` is the original's, so that what lies beside it is found."""

    def __init__(self, name: str, original: str, copy: str) -> None:
        super().__init__(name, original)
        self._copy = importlib.machinery.SourceFileLoader(name, copy)

    def get_code(self, fullname: str) -> CodeType | None:
        return self._copy.get_code(fullname)

    def get_source(self, fullname: str) -> str | None:
        return self._copy.get_source(fullname)


def _install() -> None:
    if not any(isinstance(finder, _OverlayFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OverlayFinder())


def _spec(name: str, path: Any | None) -> importlib.machinery.ModuleSpec | None:
    """Return where a module is installed, with its copy as what is run, if there is one."""
    if path is None:
        parent = name.rpartition(".")[0]
        path = list(sys.modules[parent].__path__) if parent else sys.path
    own = os.path.realpath(HERE)
    elsewhere: list[str] = [
        place for place in path if not (os.path.realpath(place or os.curdir) + os.sep).startswith(own + os.sep)
    ]
    spec = importlib.machinery.PathFinder.find_spec(name, elsewhere)
    if spec is None:
        return None
    if name not in _modules():
        _check_version(_packages()[name])
        return spec
    package, module = _modules()[name]
    _check_version(package)
    if not spec.origin or _digest(spec.origin) != module["sha256"]:
        raise OverlayError(
            "{} is not the file of {} {} that the copy in {} was made from. {}".format(
                spec.origin, package["distribution"], package["version"], HERE, _ADVICE
            )
        )
    spec.loader = _Loader(name, spec.origin, os.path.join(HERE, *module["copy"].split("/")))
    return spec


def _check_version(package: dict[str, Any]) -> None:
    if package["package"] in _checked or not package["version"]:
        return
    installed = _version(package["distribution"])
    if installed != package["version"]:
        raise OverlayError(
            "{} {} is installed, and the copies in {} were made from {}. {}".format(
                package["distribution"], installed or "(no version)", HERE, package["version"], _ADVICE
            )
        )
    _checked.add(package["package"])


def _version(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""
