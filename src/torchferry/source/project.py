"""The Python files of a project as modules: which file an import means, and what a name imported from it is."""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.core.files import read_regular
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.lines import line_matches
from torchferry.source.names import Names
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.text import SourceText, UndecodableError, decode_python

_PARSED = 24
"""How many parsed files are kept, so that memory does not grow with the project."""

KEPT = 1_500_000
"""Nodes of the parsed files that are kept where questions come back to them: 700 MB, and 20 million characters of usual
code. What is dropped is parsed again, and with it go all answers about its nodes."""

_DEPTH = 8
"""How many re-exports are followed before giving up."""


class Project:
    """The project's Python files, read and parsed when a question needs them.

    Args:
        root: Folder that the paths are relative to.
        paths: Python files of the project, relative, with `/`.
    """

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self.root = root
        self.paths = frozenset(paths)
        self._names = {name for path in self.paths for name in path.removesuffix(".py").split("/")}
        self._files: OrderedDict[str, tuple[PythonFile, Names] | None] = OrderedDict()
        self._texts: OrderedDict[str, SourceText | None] = OrderedDict()
        self._room: int | None = None
        self._held = 0
        self._importers: dict[str, list[str]] | None = None
        self._reexports: dict[str, dict[str, list[str]]] = {}
        self._modules: dict[tuple[str, str], str | None] = {}
        self._definitions: dict[tuple[str, str], bool] = {}
        self._extensions: frozenset[str] | None = None

    def add(self, file: PythonFile, names: Names) -> None:
        """Remember a file that is parsed already."""
        self._remember(file.path, (file, names))

    def parsed(self, path: str, source: SourceText) -> tuple[PythonFile, Names] | None:
        """Return a file that is at hand with this text; None where it is not, or has another."""
        held = self._files.get(path)
        return held if held is not None and held[0].source.text == source.text else None

    def is_parsed(self, path: str) -> bool:
        """Whether a file is at hand, parsed."""
        return self._files.get(path) is not None

    def file(self, path: str) -> tuple[PythonFile, Names] | None:
        """Return a file of the project, parsed, or None when it cannot be read."""
        if path in self._files:
            self._files.move_to_end(path)
            return self._files[path]
        source = self.text(path)
        loaded = None
        if source is not None:
            try:
                file = PythonFile(path, source)
            except UnparsableError:
                pass
            else:
                loaded = (file, Names(file, self))
        self._remember(path, loaded)
        return loaded

    def keep(self, room: int | None = KEPT) -> None:
        """Keep parsed files as long as they have no more nodes than this together.

        For questions that come back to the same files again and again, and not in the order of the files. All texts are
        kept then. With None, only the latest ones are kept, as at first.
        """
        self._room = room
        self._held = sum(map(_size, self._files.values()))

    def _remember(self, path: str, loaded: tuple[PythonFile, Names] | None) -> None:
        if self._room is None:
            self._files[path] = loaded
            self._forget(self._files)
            return
        self._held += _size(loaded) - _size(self._files.get(path))
        self._files[path] = loaded
        while self._held > self._room and len(self._files) > 1:
            _, dropped = self._files.popitem(last=False)
            self._held -= _size(dropped)

    def text(self, path: str) -> SourceText | None:
        """Return the text of a file of the project, or None when it cannot be read."""
        if path in self._texts:
            self._texts.move_to_end(path)
            return self._texts[path]
        try:
            source: SourceText | None = decode_python(read_regular(self.root / path))
        except (OSError, UndecodableError):
            source = None
        self._texts[path] = source
        if self._room is None:
            self._forget(self._texts)
        return source

    @staticmethod
    def _forget(parsed: OrderedDict[str, Any]) -> None:
        while len(parsed) > _PARSED:
            parsed.popitem(last=False)

    # --- modules ---

    def module_path(self, module: str, importer: str) -> str | None:
        """Return the file that the module name means to `importer`, or None when it is not the project's.

        Absolute names are looked for beside the importer and in each folder above it up to the root, then
        in `src`: the folder of the script that was started is on Python's path, and that folder is unknown.
        """
        folder = "" if module.startswith(".") else importer.rpartition("/")[0]
        key = (module, folder)
        if key not in self._modules:
            self._modules[key] = self._find_module(module, importer)
        return self._modules[key]

    def places_of_module(self, module: str, importer: str) -> Iterator[str]:
        """Yield the paths of the files that a module name may mean to `importer`, in the order of `module_path`."""
        parts = module.lstrip(".").split(".") if module.strip(".") else []
        folders = [] if module.startswith(".") else importer.split("/")[:-1]
        tops = [folders[:end] for end in range(len(folders), -1, -1)]
        for top in tops if module.startswith(".") else [*tops, ["src"]]:
            name = "/".join([*top, *parts])
            yield from (f"{name}.py", f"{name}/__init__.py") if name else ("__init__.py",)

    def _find_module(self, module: str, importer: str) -> str | None:
        if not module.startswith(".") and module.partition(".")[0] not in self._names:
            return None  # most imports are of packages of others
        return next((path for path in self.places_of_module(module, importer) if path in self.paths), None)

    def canonical(self, name: str, importer: str) -> str:
        """Return what a name imported from the project really is, following re-exports; else `name`."""
        return self._canonical(name, importer, 0, set())

    def _canonical(self, name: str, importer: str, depth: int, asked: set[tuple[str, str]]) -> str:
        """Return what a name is; each module is asked for it once, or packages full of `*` would be asked for ever."""
        module, _, member = name.rpartition(".")
        if depth > _DEPTH or not module.strip("."):
            return name
        path = self.module_path(module, importer)
        if path is None or (path, member) in asked:
            return name
        asked.add((path, member))
        passed_on = self._passed_on(path)
        for origin in passed_on.get(member, ()):
            canonical = self._canonical(origin, path, depth + 1, asked)
            if canonical.startswith("torch."):
                return canonical
        for origin in passed_on.get("*", ()):  # from .devices import *
            inner = origin.removesuffix("*") + member
            canonical = self._canonical(inner, path, depth + 1, asked)
            if canonical != inner:
                return canonical
        return name

    def _passed_on(self, path: str) -> dict[str, list[str]]:
        """Return the names that a module binds by `from` imports, or as aliases of torch, with what they stand for.

        Judged by the module's text: parsing every module that another one imports from would cost more than all else.
        """
        origins = self._reexports.get(path)
        if origins is None:
            source = self.text(path)
            text = source.text if source is not None else ""
            origins = {}
            for match in line_matches(_FROM_IMPORT, "import", text):
                module = absolute_module(match["module"], path)
                taken = match["many"] or match["names"] or ""
                for original, bound in _BOUND_NAME.findall(_COMMENT.sub("", taken) if "#" in taken else taken):
                    origins.setdefault(bound or original, []).append(f"{module}.{original}")
            for match in line_matches(_ALIAS, "torch.", text):
                origins.setdefault(match[1], []).append(match[2])
            self._reexports[path] = origins
        return origins

    def definition(
        self, name: str, importer: str
    ) -> tuple[PythonFile, Names, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] | None:
        """Return the function or class of the project that a canonical name means, with its file."""
        module, _, member = name.rpartition(".")
        path = self.module_path(module, importer) if module.strip(".") else None
        loaded = self.file(path) if path is not None and self._may_define(path, member) else None
        if loaded is None:
            return None
        file, names = loaded
        for binding in names.module_bindings(member):
            if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                return file, names, binding
        return None

    def _may_define(self, path: str, member: str) -> bool:
        """Whether the text of a file may define a function or class of this name: parsing it all takes far longer."""
        if path in self._files:
            return True
        may_define = self._definitions.get((path, member))
        if may_define is None:
            source = self.text(path)
            text = "" if source is None else source.text
            may_define = self._definitions[path, member] = (
                f"def {member}" in text
                or f"class {member}" in text
                or _wide_definition(member).search(text) is not None
            )
        return may_define

    @property
    def extensions(self) -> frozenset[str]:
        """Names of the compiled modules that the project's build scripts make."""
        if self._extensions is None:
            self._extensions = frozenset(
                name
                for path in self.paths
                if _BUILD_SCRIPT.search(path)
                for source in [self.text(path)]
                if source is not None
                for name in extension_names(source.text)
            )
        return self._extensions

    # --- who imports what ---

    def importers(self, path: str, member: str) -> Iterator[tuple[PythonFile, Names, ast.alias]]:
        """Yield the files that import `member` from the module at `path`, with the alias that does."""
        stem = path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
        for candidate in self._mentioning(stem):
            source = self.text(candidate)
            if candidate == path or source is None or member not in source.text:
                continue
            loaded = self.file(candidate)
            if loaded is None:
                continue
            file, names = loaded
            for statement in file.imports:
                if isinstance(statement, ast.ImportFrom):
                    for alias in statement.names:
                        module = names.imported_module(statement)
                        if alias.name == member and self.module_path(module, candidate) == path:
                            yield file, names, alias

    def _mentioning(self, stem: str) -> list[str]:
        """Return the files with an import statement that mentions a module's last name."""
        if self._importers is None:
            self._importers = {}
            for path in sorted(self.paths):
                try:
                    data = read_regular(self.root / path)
                except OSError:
                    continue
                for word in set(_IMPORTED_WORD.findall(data)):
                    for part in word.split(b"."):
                        self._importers.setdefault(part.decode("ascii", "replace"), []).append(path)
        return self._importers.get(stem, [])


def _size(loaded: tuple[PythonFile, Names] | None) -> int:
    return len(loaded[0].parents) if loaded is not None else 0


_IMPORTED_WORD = lazy_regex(rb"^[ \t]*from[ \t]+([.\w]+)[ \t]+import\b", re.MULTILINE)


_FROM_IMPORT = lazy_regex(
    r"^[ \t]*from[ \t]+(?P<module>[.\w]+)[ \t]+import[ \t]+(?:\((?P<many>[^()]*)\)|(?P<names>[^\r\n#;]+))",
    re.MULTILINE,
)
_BOUND_NAME = lazy_regex(r"(?<![\w*])([\w*]+)(?:\s+as\s+(\w+))?\s*(?:,|\Z)")
_ALIAS = lazy_regex(r"^(\w+)[ \t]*=[ \t]*(torch\.[\w.]+)[ \t]*(?:#.*)?$", re.MULTILINE)
_COMMENT = lazy_regex(r"#[^\r\n]*")
_BUILD_SCRIPT = lazy_regex(r"(?:^|/)(?:setup|build|make)\w*\.py\Z")
_EXTENSION_NAME = lazy_regex(r"(?:[Ee]xt|[Ee]xtension)\(\s*(?:name\s*=\s*)?[\"']([\w.]+)[\"']")


@lru_cache(maxsize=1024)
def _wide_definition(member: str) -> re.Pattern[str]:
    """Return what finds a definition written otherwise than with one space; or with letters that Python takes for
    others, so that any definition with a letter beyond ASCII is found."""
    return re.compile(rf"\b(?:def|class)(?:[ \t\f]|\\\r?\n)+(?:{re.escape(member)}\b|\w*[^\x00-\x7f])")


def extension_names(text: str) -> frozenset[str]:
    """Return the last names of the compiled modules that the text of a build script makes."""
    return frozenset(name.rpartition(".")[2] for name in _EXTENSION_NAME.findall(text))


def absolute_module(module: str, importer: str) -> str:
    """Return a module name as `Project` takes it: relative ones as a path from the root behind a dot."""
    level = len(module) - len(module.lstrip("."))
    if not level:
        return module
    parts = importer.split("/")[:-level]
    rest = module[level:]
    return "." + ".".join([*parts, rest] if rest else parts)
