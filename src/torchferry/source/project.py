"""The Python files of a project as modules: which file an import means, and what a name imported from it is."""

from __future__ import annotations

import ast
import contextlib
import os
import posixpath
import re
import stat
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends import cuda
from torchferry.core.files import LARGEST_SETTINGS, read_regular, read_text
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.compiled import NATIVE, CompiledCode
from torchferry.source.exports import ModuleExports, module_exports, path_of_dotted, words_imported, words_passed_on
from torchferry.source.kinds import SETTINGS, kind_of
from torchferry.source.names import Names, Resolved
from torchferry.source.python import PythonFile, UnparsableError, parse
from torchferry.source.star_imports import StarImport
from torchferry.source.text import SourceText, UndecodableError, decode_python, in_utf8

_PARSED = 24
"""How many parsed files are kept, so that memory does not grow with the project."""

KEPT = 1_500_000
"""Nodes of the parsed files that are kept where questions come back to them: 700 MB, and 20 million characters of usual
code. What is dropped is parsed again, and with it go all answers about its nodes."""

_MOST_PASSED_ON = 8
"""Modules that pass a definition on, one to the other, before giving up."""

_MOST_ASKED = 200
"""Modules that are asked for one name; longer chains of re-exports are not followed."""

_DEEPEST_STAR, _MOST_STARS = 50, 100
"""How far star imports of star imports are followed, and how many; what lies behind more is unread, and said to be."""


class Project:
    """The project's Python files, read and parsed when a question needs them.

    Args:
        root: Folder that the paths are relative to.
        paths: Python files of the project, relative, with `/`.
        others: Its other files: sources in other languages, what builds them, settings.
        followed: Modules, beside torch and importlib, whose names are followed through what modules pass on.
    """

    def __init__(
        self, root: Path, paths: Iterable[str], others: Iterable[str] = (), followed: Iterable[str] = ()
    ) -> None:
        self._followed = tuple(f"{module}." for module in ("torch", "importlib", *sorted(followed)))
        self.root = root
        kinds = {path: kind_of(path) for path in others}
        self.compiled = CompiledCode(root, (path for path, kind in kinds.items() if kind in NATIVE))
        self._settings = sorted(path for path, kind in kinds.items() if kind in SETTINGS)
        self.paths = frozenset(paths)
        self._others = frozenset(kinds)
        self._names = {name for path in self.paths for name in path.removesuffix(".py").split("/")}
        self._files: OrderedDict[str, tuple[PythonFile, Names] | None] = OrderedDict()
        self._texts: OrderedDict[str, SourceText | None] = OrderedDict()
        self._room: int | None = None
        self._held = 0
        self._importers: dict[str, list[str]] | None = None
        self._import_words: dict[str, list[str]] | None = None
        self._exports: dict[str, ModuleExports | None] = {}
        self._passed_on: dict[str, frozenset[str]] = {}
        self._resolved: dict[tuple[str, str], Resolved | None] = {}
        self._stars: dict[str, StarImport] = {}
        self._own: dict[str, dict[str, str]] = {}
        self._modules: dict[tuple[str, str], str | None] = {}
        self._definitions: dict[tuple[str, str], bool] = {}
        self._extensions: frozenset[str] | None = None
        self._operator_namespaces: frozenset[str] | None = None
        self._defined: dict[str, bool] = {}
        self._written: dict[str, bool] = {}
        self._settings_texts: list[str] | None = None

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
        parts = path_of_dotted(module).split("/") if module.strip(".") else []
        folders = [] if module.startswith(".") else importer.split("/")[:-1]
        tops = [folders[:end] for end in range(len(folders), -1, -1)]
        if len(tops) > 1 and parts and parts[0] in sys.stdlib_module_names:  # `logging` in `pkg/logging/base.py`
            tops = tops[:1] + [top for top in tops[1:] if "/".join([*top, "__init__.py"]) not in self.paths]
        for top in tops if module.startswith(".") else [*tops, ["src"]]:
            name = "/".join([*top, *parts])
            yield from (f"{name}.py", f"{name}/__init__.py") if name else ("__init__.py",)

    def has_other_module(self, module: str, importer: str) -> bool:
        """Whether a module name may mean a file of the project to a file, and not that file itself."""
        return any(path in self.paths and path != importer for path in self.places_of_module(module, importer))

    def _find_module(self, module: str, importer: str) -> str | None:
        if not module.startswith(".") and module.partition(".")[0] not in self._names:
            return None  # most imports are of packages of others
        return next((path for path in self.places_of_module(module, importer) if path in self.paths), None)

    def canonical(self, name: str, importer: str) -> str:
        """Return what a name imported from the project really is, following re-exports; else `name`."""
        resolved = self.resolve(name, importer)
        return name if resolved is None else resolved.whole(name)

    def resolve(self, name: str, importer: str) -> Resolved | None:
        """Return what the beginning of a dotted name represents, where modules of the project pass it on.

        `helpers.torch.cuda` begins with `torch` where `helpers` imports it; None for what the project itself defines.
        """
        top = name.partition(".")[0]
        if top and top not in self._names:  # most names are of packages of others
            return _passed_on_by_package(name) if top in cuda.packages_passing_on() else None
        key = (name, "" if not top else importer.rpartition("/")[0])
        if key not in self._resolved:
            self._resolved[key] = self._resolve(name, importer, set())
        return self._resolved[key]

    def _resolve(self, name: str, importer: str, asked: set[tuple[str, str]]) -> Resolved | None:
        parts = name.split(".")
        first = 1 if parts[0] else 2  # `.package.module` begins with an empty part
        for end in range(first, len(parts)):
            path = self.module_path(".".join(parts[:end]), importer)
            if path is None:
                continue  # a folder without `__init__.py`, or nothing
            origin = self._origin(path, parts[end], asked)
            if origin is not None:
                return Resolved(origin, end + 1)
            through = self._through(path, parts[end:], asked)
            if through is not None:
                return Resolved(through.name, end + through.parts)
        return None

    def _through(self, path: str, parts: list[str], asked: set[tuple[str, str]]) -> Resolved | None:
        """Follow a name that begins with a module of the project that another one imports: `helpers` in `c.helpers`."""
        words = self._words_passed_on(path) if len(parts) > 1 else frozenset()
        key = (path, f".{parts[0]}")
        if key in asked or len(asked) > _MOST_ASKED or not (parts[0] in words or "*" in words):
            return None
        asked.add(key)
        exports = self.exports(path)
        origins = exports.origins.get(parts[0], ()) if exports is not None else ()
        stars = exports.stars if exports is not None and parts[0] not in exports.origins else ()
        for origin in (*origins, *(f"{star}.{parts[0]}" for star in reversed(stars))):
            resolved = self._resolve(".".join((origin, *parts[1:])), path, asked)
            more = resolved.parts - len(origin.split(".")) if resolved is not None else 0
            if resolved is not None and more > 0:
                return Resolved(resolved.name, 1 + more)
        return None

    def _origin(self, path: str, member: str, asked: set[tuple[str, str]]) -> str | None:
        """Return what of torch a module passes on as `member`.

        Each module is asked for a name once, or packages full of `*` would be asked for ever.
        """
        if (path, member) in asked or len(asked) > _MOST_ASKED:
            return None
        asked.add((path, member))
        words = self._words_passed_on(path)
        exports = self.exports(path) if member in words or "*" in words else None
        if exports is None:
            return None
        for origin in exports.origins.get(member, ()):
            resolved = self._resolve(origin, path, asked)
            if resolved is not None:
                return resolved.whole(origin)
            if f"{origin}.".startswith(self._followed):
                return origin
        if member in exports.origins:
            return None
        for module in reversed(exports.stars):
            other = self.module_path(module, path)
            if other is None:
                passed_on = cuda.star_names(module).get(member)
            else:
                passed_on = self._origin(other, member, asked)
            if passed_on is not None:
                return passed_on
        return None

    def exports(self, path: str) -> ModuleExports | None:
        """Return what a module passes on; None where it cannot be read."""
        if path not in self._exports:
            loaded = self._files.get(path)
            tree = None if loaded is None else loaded[0].tree
            source = self.text(path) if tree is None else None
            if source is not None:
                with contextlib.suppress(UnparsableError):
                    tree = parse(source.text)
            self._exports[path] = None if tree is None else module_exports(tree, path)
        return self._exports[path]

    def _words_passed_on(self, path: str) -> frozenset[str]:
        words = self._passed_on.get(path)
        if words is None:
            source = self.text(path)
            words = self._passed_on[path] = words_passed_on("" if source is None else source.text)
        return words

    def star(self, module: str, importer: str) -> StarImport:
        """Return what `from module import *` binds in a file."""
        path = self.module_path(module, importer)
        if path is None or path not in self._stars:
            star = self._gather(module, importer, {}, 0)
            if path is None:
                return star
            self._stars[path] = star
        return self._stars[path]

    def _gather(self, star: str, importer: str, gathered: dict[str, StarImport], depth: int) -> StarImport:
        """Return what a star import binds: first what its module has by stars of its own, then the module's own names.

        Args:
            star: The module that is imported.
            importer: The file that imports it.
            gathered: The known facts about other modules; of those that are being asked, nothing.
            depth: How many star imports lead here.
        """
        path = self.module_path(star, importer)
        if path is None:
            listed = cuda.star_names(star)
            return StarImport(listed, () if listed else (star,))
        if path in gathered:
            return gathered[path]
        exports = self.exports(path) if depth < _DEEPEST_STAR and len(gathered) < _MOST_STARS else None
        module = _module_of(path)
        if exports is None:
            return StarImport({}, (module,))
        gathered[path] = StarImport({}, ())
        taken: dict[str, str] = {}
        unread: list[str] = [module] if exports.is_open else []
        for further in exports.stars:
            inner = self._gather(further, path, gathered, depth + 1)
            taken.update(inner.names)
            unread += inner.unread
        taken.update(self._own_names(path, exports))
        for name in exports.declared or ():  # a submodule, or what a function binds
            taken.setdefault(name, f"{module}.{name}")
        names = {name: origin for name, origin in taken.items() if exports.by_star(name)}
        gathered[path] = StarImport(names, tuple(dict.fromkeys(unread)))
        return gathered[path]

    def _own_names(self, path: str, exports: ModuleExports) -> dict[str, str]:
        """Return the names that a module binds by itself, with what each represents."""
        own = self._own.get(path)
        if own is None:
            module = _module_of(path)
            own = {name: self._origin(path, name, set()) or f"{module}.{name}" for name in exports.origins}
            self._own[path] = own
        return own

    def definition(
        self, name: str, importer: str
    ) -> tuple[PythonFile, Names, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] | None:
        """Return the function or class of the project that a canonical name means, with its file.

        It is in the module that the name says, or in the one from which that module passes it on.
        """
        for _ in range(_MOST_PASSED_ON):
            module, _, member = name.rpartition(".")
            path = self.module_path(module, importer) if module.strip(".") else None
            loaded = self.file(path) if path is not None and self._may_define(path, member) else None
            if loaded is None or path is None:
                return None
            file, names = loaded
            bindings = names.module_bindings(member)
            for binding in bindings:
                if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    return file, names, binding
            passed_on = names.binding_origin(bindings[0]) if len(bindings) == 1 else None
            if passed_on is None or passed_on == name or not isinstance(bindings[0], ast.alias):
                return None
            name, importer = passed_on, path
        return None

    def _may_define(self, path: str, member: str) -> bool:
        """Whether the text of a file may define a function or class of this name, or pass it on from another.

        Parsing it all takes far longer.
        """
        if path in self._files:
            return True
        may_define = self._definitions.get((path, member))
        if may_define is None:
            source = self.text(path)
            text = "" if source is None else source.text
            defined = rf"\b(?:def|class)(?:[ \t\f]|\\\r?\n)+{re.escape(member)}\b"
            says = member in text and ("import" in text or re.search(defined, text) is not None)
            may_define = self._definitions[path, member] = says or bool(_ANY_NAME.search(text))
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

    def defines(self, word: str) -> bool:
        """Whether any file of the project, one of settings too, may define an attribute or a key of this name."""
        defined = self._defined.get(word)
        if defined is None:
            spelt = re.escape(word).replace("_", "[-_]")
            pattern = re.compile(rf"(?<![.\w]){spelt}(?!\w)|\.{re.escape(word)}[ \t]*(?::[^=\n]{{0,200}})?=(?!=)")
            begin = word.partition("_")[0] or word
            texts = (text for text in self._texts_and_settings() if begin in text)
            defined = any(pattern.search(text) is not None for text in texts)
            self._defined[word] = defined
        return defined

    def writes(self, text: str) -> bool:
        """Whether a text is in any Python file of the project."""
        written = self._written.get(text)
        if written is None:
            sources = (self.text(path) for path in sorted(self.paths))
            written = self._written[text] = any(source is not None and text in source.text for source in sources)
        return written

    def has_file(self, name: str) -> bool:
        """Whether the end of the path of a file, or of a folder with files, is a name."""
        within = f"/{name.strip('/')}/"
        return any(within in f"/{path}/" for paths in (self.paths, self._others) for path in paths)

    def files_called(self, names: Collection[str]) -> list[str]:
        """Return the files of some names, whichever folder each lies in, in order of their paths."""
        return sorted(path for path in self.paths | self._others if path.rpartition("/")[2] in names)

    def unread_file(self, name: str, importer: str) -> str | None:
        """Return the file that a text of a Python file names, of those that torchferry does not read; else None.

        It may be a link that leads anywhere, and it may lie where nobody may look.
        """
        folder = importer.rpartition("/")[0]
        for each in dict.fromkeys((folder, "")):
            path = posixpath.normpath(f"{each}/{name}" if each else name)
            if not path.startswith(("../", "/")) and kind_of(path) is None and self._may_be_file(path):
                return path
        return None

    def _may_be_file(self, path: str) -> bool:
        """Whether a path is that of a file or of a link, or nobody may look whether it is."""
        try:
            mode = os.lstat(self.root / path).st_mode
        except (PermissionError, ValueError) as error:
            return isinstance(error, PermissionError)
        except OSError:  # it is not there, or is too long for a path
            return False
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)

    def _texts_and_settings(self) -> Iterator[str]:
        for path in sorted(self.paths):
            source = self.text(path)
            if source is not None:
                yield source.text
        if self._settings_texts is None:
            self._settings_texts = []
            for path in self._settings:
                with contextlib.suppress(OSError):
                    self._settings_texts.append(read_text(self.root / path, LARGEST_SETTINGS, "replace"))
        yield from self._settings_texts

    @property
    def operator_namespaces(self) -> frozenset[str]:
        """Namespaces of `torch.ops` that the project's Python files may register, or have compiled and loaded."""
        if self._operator_namespaces is None:
            texts = (source.text for source in map(self.text, sorted(self.paths)) if source is not None)
            self._operator_namespaces = frozenset(
                match[1] or match[2]
                for text in texts
                if "::" in text or "Library" in text or "load" in text
                for match in _OPERATORS.finditer(text)
            )
        return self._operator_namespaces

    # --- who imports what ---

    def importers(self, path: str, member: str) -> Iterator[tuple[PythonFile, Names, ast.alias]]:
        """Yield the files that import `member` from the module at `path`, with the alias that does."""
        for candidate, file, names in self._others_importing(path, member, self._mentioning):
            for statement in file.imports:
                if isinstance(statement, ast.ImportFrom):
                    module = names.imported_module(statement)
                    for alias in statement.names:
                        if alias.name == member and self.module_path(module, candidate) == path:
                            yield file, names, alias
                    by_star = names.star_alias(statement, member) if statement.names[0].name == "*" else None
                    if by_star is not None and names.binding_origin(by_star) == f"{_module_of(path)}.{member}":
                        yield file, names, by_star

    def _others_importing(
        self, path: str, member: str, naming: Callable[[str], Iterable[str]]
    ) -> Iterator[tuple[str, PythonFile, Names]]:
        """Yield the other files that hold a name and name the module that has it, or import all of some module.

        Args:
            path: The module.
            member: The name.
            naming: Returns the files that name a module, by the last part of its name or `*`.
        """
        stem = path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
        for candidate in dict.fromkeys((*naming(stem), *naming(_STAR))):
            source = self.text(candidate)
            if candidate != path and source is not None and member in source.text:
                loaded = self.file(candidate)
                if loaded is not None:
                    yield candidate, *loaded

    def users(self, path: str, member: str) -> Iterator[tuple[PythonFile, Names, ast.expr]]:
        """Yield the uses that other files make of what the module at `path` binds, also as other modules pass it on."""
        waiting = deque([(path, member)])
        asked = {*waiting}
        while waiting:
            for further, use in self._users(*waiting.popleft()):
                if use is not None:
                    yield use
                elif further not in asked:
                    asked.add(further)
                    waiting.append(further)

    def _users(
        self, path: str, member: str
    ) -> Iterator[tuple[tuple[str, str], tuple[PythonFile, Names, ast.expr] | None]]:
        """Yield the uses in the files that import a name of a module, and without a use, what they pass it on as."""
        for candidate, file, names in self._others_importing(path, member, self._importing):
            for attribute in file.attributes.get(member, ()):
                module, _, name = (names.qualified(attribute) or "").rpartition(".")
                if name == member and module.strip(".") and self.module_path(module, candidate) == path:
                    yield (candidate, member), (file, names, attribute)
            for statement in file.imports:
                for alias in statement.names if isinstance(statement, ast.ImportFrom) else ():
                    module = names.imported_module(statement)  # type: ignore[arg-type]
                    if alias.name not in (member, _STAR) or self.module_path(module, candidate) != path:
                        continue
                    bound = names.star_alias(statement, member) if alias.name == _STAR else alias  # type: ignore[arg-type]
                    if bound is None:
                        continue
                    identifier = bound.asname or bound.name
                    for use in names.uses_of_import(bound):
                        yield (candidate, identifier), (file, names, use)
                    yield (candidate, identifier), None

    def _importing(self, word: str) -> list[str]:
        """Return the files with a word in an import statement."""
        if self._import_words is None:
            self._import_words = {}
            for path in sorted(self.paths):
                source = self.text(path)
                for each in words_imported("" if source is None else source.text):
                    self._import_words.setdefault(each, []).append(path)
        return self._import_words.get(word, [])

    def _mentioning(self, stem: str) -> list[str]:
        """Return the files with an import statement that mentions a module's last name."""
        if self._importers is None:
            self._importers = {}
            for path in sorted(self.paths):
                try:
                    data = in_utf8(read_regular(self.root / path))
                except OSError:
                    continue
                parts = {part for word in _IMPORTED_WORD.findall(data) for part in word.split(b".")}
                for part in parts | ({_STAR.encode()} if b"import *" in data else set()):
                    self._importers.setdefault(part.decode("utf-8", "replace"), []).append(path)
        return self._importers.get(stem, [])


def _size(loaded: tuple[PythonFile, Names] | None) -> int:
    return len(loaded[0].parents) if loaded is not None else 0


_STAR = "*"
"""The name under which files are kept that import everything of a module."""

_IMPORTED_WORD = lazy_regex(rb"^[ \t]*from[ \t]+([.\w\x80-\xff]+)[ \t]+import\b", re.MULTILINE)


_BUILD_SCRIPT = lazy_regex(r"(?:^|/)(?:setup|build|make)\w*\.py\Z")
# all names of a module, or one with a letter beyond ASCII, which Python may take for another one
_ANY_NAME = lazy_regex(r"\bimport\b[ \t]*\*|\b(?:def|class)(?:[ \t\f]|\\\r?\n)+\w*[^\x00-\x7f]")
_OPERATORS = lazy_regex(
    r"[\"']([A-Za-z_]\w{0,100})::\w|\b(?:Library|load|load_inline)\([ \t\n]{0,40}(?:name[ \t]?=[ \t]?)?[\"'](\w+)[\"']"
)
_EXTENSION_NAME = lazy_regex(r"(?:[Ee]xt|[Ee]xtension)\(\s*(?:name\s*=\s*)?[\"']([\w.]+)[\"']")


@lru_cache(maxsize=1024)
def extension_names(text: str) -> frozenset[str]:
    """Return the last names of the compiled modules that the text of a build script makes."""
    return frozenset(name.rpartition(".")[2] for name in _EXTENSION_NAME.findall(text))


def _passed_on_by_package(name: str) -> Resolved | None:
    """Return what the beginning of a name represents that a package of others passes on, where that is known."""
    parts = name.split(".")
    for end in range(1, len(parts)):
        origin = cuda.star_names(".".join(parts[:end])).get(parts[end])
        if origin is not None:
            return Resolved(origin, end + 1)
    return None


def _module_of(path: str) -> str:
    """Return the name of a file's module from the root, as `Project` takes it."""
    parts = path.removesuffix(".py").split("/")
    return "." + ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
