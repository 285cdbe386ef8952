"""Which file of a project imports which: each import with its place, also those by names that are computed."""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from weakref import WeakKeyDictionary

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.core.vendored import untouched
from torchferry.programs.imports.computed_names import (
    HOLE,
    ROOT,
    ComputedName,
    ComputedNames,
    Parsed,
    Unfollowed,
    taking_imports,
)
from torchferry.programs.imports.lazy_imports import LazyImports, names_taken
from torchferry.programs.imports.packaging_metadata import Packaging
from torchferry.programs.imports.plugin_loading import (
    LOADING,
    WORDS,
    AskedPlugins,
    PluginPoints,
    plugin_calls,
    plugin_points,
)
from torchferry.programs.imports.settings_classes import (
    LIBRARIES,
    REGISTERS,
    SettingsFiles,
    built_in,
    loaded_in,
    made_in,
    overridden_in,
    said_in,
    tags_read_in,
)
from torchferry.source.exports import absolute_module, path_of_dotted
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.nodes import nodes_in
from torchferry.source.outline import Import, Outline
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

_BINDS_ANY = lazy_regex(
    r"import\s{0,20}\(?\s{0,20}\*|__getattr__|globals\(\)|locals\(\)|setattr\(|\bexec\(|sys\.modules|__path__|vars\("
)
"""What the text of a package's file says that may bind names which are not written there."""


class Edge(NamedTuple):
    """One file imports another.

    Attributes:
        importer: The file with the import.
        path: The file that is imported.
        line: The line of the import, from 1; 0 where nothing is written, as for the package of a module.
        indented: Whether the import is inside of something, so that what is around it must be looked at.
        chosen: Whether the import is one of several that a computed name may mean.
    """

    importer: str
    path: str
    line: int
    indented: bool = False
    chosen: bool = False


_TAKES_IN = re.compile(r"(?:_base_|custom_imports)(?:(?<=\b_base_)|(?<=\bcustom_imports))\b")
"""What a configuration in Python says of others."""


class External(NamedTuple):
    """A file imports a package that is not the project's.

    Attributes:
        importer: The file with the import.
        module: The dotted module; of a relative import the path from the root behind a dot.
        line: The line of the import.
        indented: Whether it is inside of something.
        names: The names taken from it.
        computed: Whether the module's name is computed, so that no statement says it.
    """

    importer: str
    module: str
    line: int
    indented: bool
    names: tuple[str, ...]
    computed: bool = False


class Modules:
    """The imports of a project's files.

    Args:
        project: The project's Python files.
        outlines: What each of its files and notebooks imports.
        settings: Its settings files, which may name classes.
        parsed: Returns a file or a notebook, parsed; without it notebooks are not looked into.
    """

    def __init__(
        self,
        project: Project,
        outlines: Iterable[Outline],
        settings: SettingsFiles | None = None,
        parsed: Parsed | None = None,
    ) -> None:
        self.project = project
        self._parsed = parsed if parsed is not None else project.file
        self.settings = settings if settings is not None else SettingsFiles(project.root)
        self.edges: dict[str, list[Edge]] = {}
        self.importers: dict[str, list[Edge]] = {}
        self.externals: dict[str, list[External]] = {}
        self.missing: dict[str, list[External]] = {}
        """Modules of the project's own packages that are imported by computed names, and of which it has no file."""
        self.unfollowed: dict[str, list[Unfollowed]] = {}
        self.imports: dict[str, tuple[Import, ...]] = {}
        self.computed: dict[str, list[Import]] = {}
        """The modules of the project that a file imports by computed names, as far as they could be told."""
        self._dynamic: set[str] = set()
        self._makers: set[str] = set()
        self._taggers: set[str] = set()
        self._pluggable: set[str] = set()
        self._asked: WeakKeyDictionary[PythonFile, tuple[AskedPlugins, ...]] = WeakKeyDictionary()
        self._plain: set[str] = set()
        self._loaders: dict[str, list[Edge]] = {}
        self._builders: dict[str, list[Edge]] = {}
        self._computed = ComputedNames(project, self._text, self._parsed)
        self._all_named: tuple[str, ...] | None = None
        self._sorted: list[str] | None = None
        self._folder_names = {part for path in project.paths for part in path.split("/")[:-1]}
        self._by_last: dict[str, list[str]] | None = None
        self._may_bind: dict[tuple[str, str, bool], bool] = {}
        self._elsewhere: dict[str, tuple[str | None, str | None]] = {}
        self._asking: dict[str, list[str]] = {}
        outlines = [*outlines]
        self.lazy = LazyImports(outlines, project.paths, self._text, self._parsed, self.find)
        for outline in outlines:
            self.imports[outline.path] = outline.imports
            for imported in outline.imports:
                self._add(outline.path, imported)
            if outline.is_dynamic:
                self._dynamic.add(outline.path)
            if not LIBRARIES.isdisjoint(outline.packages):
                self._makers.add(outline.path)
            if "yaml" in outline.packages:
                self._taggers.add(outline.path)
            if not LOADING.isdisjoint(outline.packages) or any(
                not WORDS.isdisjoint(imported.names) for imported in outline.imports
            ):
                self._pluggable.add(outline.path)
            if not outline.imports:
                self._plain.add(outline.path)
        self.takers = taking_imports(outlines, self._text)
        """The files that may take a function which imports from another one."""
        self._dynamic |= self.takers

    def _add(self, importer: str, imported: Import) -> None:
        module = absolute_module(imported.module, importer)
        paths = [*self.files_of(module, importer)]
        if paths and self.find(module, importer) is None:  # a module that is no package has none below it
            own = self.find(module.partition(".")[0], importer)
            is_others = own is not None and not module.startswith(".") and self._is_inner(own, 1)
            paths = [] if is_others else [path for path in paths if path.endswith("/__init__.py")]
        # a name may be a module itself: from package import module; the package may have no file of its own
        is_folder = bool(paths) or module.startswith(".") or module.rpartition(".")[2] in self._folder_names
        taken = names_taken(self.project, self.find(module, importer), imported.names) if is_folder else ()
        inner = [self.find(f"{module}.{name}", importer) for name in taken]
        paths += (path for path in inner if path is not None)
        for own in paths[:]:
            if self.lazy.exports(own) is not None:
                for lazily in self.lazy.modules(own, imported.names):
                    paths += self.files_of(lazily, own)
                if not imported.names or "*" in imported.names or own in inner:  # else the package has no name there
                    self._asking.setdefault(importer, []).append(own)
        for path in dict.fromkeys(paths):
            if path != importer:
                self._connect(Edge(importer, path, imported.line, imported.indented))
        if not paths:
            external = External(importer, module, imported.line, imported.indented, imported.names)
            self.externals.setdefault(importer, []).append(external)

    def imported_by(self, statement: ast.Import | ast.ImportFrom, names: Names) -> set[str]:
        """Return the files that an import statement means, the packages around them left out."""
        importer = names.file.path
        if isinstance(statement, ast.Import):
            paths = {self.find(alias.name, importer) for alias in statement.names}
        else:
            module = names.imported_module(statement)
            paths = {self.find(f"{module}.{alias.name}", importer) for alias in statement.names}
            paths.add(self.find(module, importer))
        return {path for path in paths if path is not None}

    def _connect(self, edge: Edge) -> None:
        self.edges.setdefault(edge.importer, []).append(edge)
        self.importers.setdefault(edge.path, []).append(edge)

    def files_of(self, module: str, importer: str) -> Iterator[str]:
        """Yield the files that run when a module is imported: those of the packages around it, then its own."""
        own = self.find(module, importer)
        if own is None:
            package = module.rpartition(".")[0]
            if package.strip("."):
                yield from self.files_of(package, importer)
            return
        folder = own.rpartition("/")[0]
        around = []
        depth = module.lstrip(".").count(".") if not module.startswith(".") else folder.count("/") + 1
        if own.endswith("/__init__.py"):
            folder = folder.rpartition("/")[0]
        for _ in range(depth):
            init = f"{folder}/__init__.py"
            if init in self.project.paths:
                around.append(init)
            elif not folder or module.startswith("."):
                break  # else a folder without the file is a package too, and those around it are imported all the same
            folder = folder.rpartition("/")[0]
        yield from reversed(around)
        yield own

    def find(self, module: str, importer: str) -> str | None:
        """Return the file that a module name means to a file, or None when it is not the project's."""
        own = self.project.module_path(module, importer)
        if own is not None or module.startswith("."):
            return own
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names:
            return None
        if module not in self._elsewhere:
            self._elsewhere[module] = self._find_elsewhere(module)
        free, inner = self._elsewhere[module]
        return free or (inner if inner is not None and "sys.path" in self._text(importer) else None)

    def only_file_of(self, module: str) -> str | None:
        """Return the only file of the tree that a module can be, where its folder on the path would be a package."""
        if module not in self._elsewhere:
            self._elsewhere[module] = self._find_elsewhere(module)
        return self._elsewhere[module][1]

    def defines(self, path: str, names: Iterable[str]) -> bool:
        """Whether a file defines all of some names, judged by its text."""
        text = self._text(path)
        return all(re.search(rf"^(?:def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*[=:]", text, re.M)
                   for name in names)  # fmt: skip

    def may_bind(self, path: str, name: str, importer: str) -> bool:
        """Whether a package's file may bind a name that a file imports, judged by its text: else it is a module's."""
        key = (path, name, importer == path)
        if key not in self._may_bind:
            text = self._text(path)
            is_said = self.defines(path, (name,)) if importer == path else re.search(rf"\b{re.escape(name)}\b", text)
            self._may_bind[key] = bool(is_said) or _BINDS_ANY.search(text) is not None
        return self._may_bind[key]

    def _find_elsewhere(self, module: str) -> tuple[str | None, str | None]:
        """Return the only file of the tree that a module can be: a package in a folder that is put on Python's path.

        The second one is the only file whose folder on the path would be a package itself, which few do.
        """
        if self._by_last is None:
            self._by_last = {}
            for path in sorted(self.project.paths):
                stem = path.removesuffix(".py").removesuffix("/__init__")
                self._by_last.setdefault(stem.rpartition("/")[2], []).append(path)
        parts = module.split(".")
        ending = "/" + "/".join(parts)
        alike = self._by_last.get(parts[-1], ())
        matching = [path for path in alike if path.removesuffix(".py").removesuffix("/__init__").endswith(ending)]
        free = [path for path in matching if not self._is_inner(path, len(parts))]
        return (free[0] if len(free) == 1 else None), (matching[0] if len(matching) == 1 else None)

    def _is_inner(self, path: str, length: int) -> bool:
        """Whether the folder that would have to be on Python's path is a package itself.

        Args:
            path: The file of a module.
            length: How many parts the name has by which it is imported.
        """
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")[:-length]
        return bool(parts) and "/".join([*parts, "__init__.py"]) in self.project.paths

    # --- names that are computed ---

    def follow_computed(self, path: str) -> None:
        """Add the imports of a file whose modules are computed, as far as they can be told."""
        if path in self._makers:
            self._makers.discard(path)
            line = made_in(self._text(path))
            if line:
                self._loads(path, line, indented=False)
                self._names_classes(path, overridden_in(self._text(path)), chosen=True)
            self._names_classes(path, said_in(self._text(path)), chosen=False)
        if path in self._taggers:
            self._taggers.discard(path)
            line = tags_read_in(self._text(path))
            self._names_classes(path, ((name, line) for name in self.settings.tagged() if line), chosen=True)
        if path in self._pluggable:
            self._pluggable.discard(path)
            text = self._text(path)
            if any(word in text for word in WORDS):
                self._load_plugins(path)
        if path in self._plain:
            self._plain.discard(path)
            self._follow_configuration(path)
        asking = dict.fromkeys(self._asking.pop(path, ()))
        for module, line in (each for package in asking for each in self.lazy.asked(path, package)):
            for file in (file for file in self.files_of(module, path) if file != path):
                self._connect(Edge(path, file, line, indented=True))
        taken = [*self.lazy.take_made(path, self._computed.texts)]
        if path not in self._dynamic and not taken:
            return
        self._dynamic.discard(path)
        if untouched(self._text(path)):  # the device module that torchferry wrote: it asks for plugins alone
            return
        for computed in (*taken, *self._computed.of(path)):
            name, takers = computed.exported_as, self.importers.get(path, ())
            is_unused = name != "" and not any(name in self._text(each.importer) for each in takers)
            if is_unused or self.lazy.says_all(path, computed.owner):
                continue
            complete = [name for name in computed.names if name != HOLE]
            chosen = len(complete) > 1 and not computed.every
            followed = [self._follow(path, name, computed, chosen=chosen) for name in complete]
            if not complete and self._loads(path, computed.line, indented=True):
                continue
            if not all(followed) or len(complete) < len(computed.names):
                inner = Unfollowed(path, computed.line, computed.text, of_others=computed.is_probe)
                self.unfollowed.setdefault(path, []).append(inner)

    def _names_classes(self, path: str, named: Iterable[tuple[str, int]], *, chosen: bool) -> None:
        """Add the modules of classes that a file names by texts, each with the line."""
        for name, line in named:
            for file in self._named([name]):
                if file != path:
                    self._connect(Edge(path, file, line, indented=True, chosen=chosen))

    @cached_property
    def packaging(self) -> Packaging:
        """What the packaging files of the project declare."""
        return Packaging(self.project, self._computed.texts)

    @cached_property
    def plugins(self) -> PluginPoints:
        """The entry points of the project's own packages."""
        return plugin_points(self.packaging.of_project())

    def asked_plugins(self, file: PythonFile, names: Names) -> tuple[AskedPlugins, ...]:
        """Return what a file asks for of entry points."""
        if file not in self._asked:
            asked = (
                AskedPlugins(call.node, self._texts_of(file, names, call.group), self._texts_of(file, names, call.name))
                for call in plugin_calls(file, names)
            )
            self._asked[file] = tuple(dict.fromkeys(asked))
        return self._asked[file]

    def _texts_of(self, file: PythonFile, names: Names, node: ast.expr | None) -> frozenset[str] | None:
        """Return the texts that an expression may have; None for one that cannot be told, or that is not there."""
        texts = self._computed.texts(file, names, node) if node is not None else (HOLE,)
        return None if any(HOLE in text for text in texts) else frozenset(texts)

    def _load_plugins(self, path: str) -> None:
        """Add the modules that a file loads by entry points of the project, and remember what else it may load."""
        loaded = self._parsed(path)
        for asked in self.asked_plugins(*loaded) if loaded is not None else ():
            line, text = asked.node.lineno, " ".join(loaded[0].text(asked.node).split())[:80]  # type: ignore[index]
            chosen = not asked.is_sure(self.plugins)
            points = [point for point in self.plugins.points if asked.may_give(point)]
            for file in (file for point in points for file in self.files_of(point.module, point.path)):
                if file != path:
                    self._connect(Edge(path, file, line, indented=True, chosen=chosen))
            of_others = asked.of_others(self.plugins)
            if asked.groups is None:
                reasons = [
                    say("loads the plugins of an entry-point group whose name could not be resolved: {text}", text=text)
                ]
            elif asked.is_open(self.plugins):
                of_others = []
                reasons = [say("loads plugins of the project, some of which could not be resolved: {text}", text=text)]
            else:
                reasons = [
                    say("loads what other packages provide for `{group}`: {text}", group=group, text=text)
                    for group in of_others
                ]
            for reason in reasons:
                inner = Unfollowed(path, line, text, reason, of_others=bool(of_others))
                self.unfollowed.setdefault(path, []).append(inner)

    def _loads(self, path: str, line: int, *, indented: bool) -> bool:
        """Remember that a file makes objects of what settings name; say whether they name anything of the project."""
        edges = [Edge(path, file, line, indented, chosen=True) for file in self.files_named() if file != path]
        for edge in edges:
            self.importers.setdefault(edge.path, []).append(edge)
        self._loaders.setdefault(path, []).extend(edges)
        return bool(edges)

    def _lazy(self) -> Iterator[str]:
        """Yield the settings of detectron2 that are Python: they import what they name, and a program loads one."""
        for path in sorted(self.imports):
            if any("LazyCall" in imported.names for imported in self.imports[path]):
                yield path

    def _builds(self, path: str) -> list[Edge]:
        """Return the files of which a program may build what they register, as its configuration says."""
        if path not in self._builders:
            line, lazy = built_in(self._text(path)), loaded_in(self._text(path))
            edges = [Edge(path, file, line, chosen=True) for file in self.registering if line and file != path]
            edges += [Edge(path, file, lazy, chosen=True) for file in (self._lazy() if lazy else ()) if file != path]
            for edge in edges:
                self.importers.setdefault(edge.path, []).append(edge)
            self._builders[path] = edges
        return self._builders[path]

    @cached_property
    def registering(self) -> tuple[str, ...]:
        """The files that register what a configuration may name."""
        importing = [
            path
            for path, imports in sorted(self.imports.items())
            if any(each.module.rpartition(".")[2].lower().endswith("registry") for each in imports)
        ]
        return tuple(path for path in importing if REGISTERS in self._text(path))

    def files_named(self, settings: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return the files of the classes that some settings files name; those of all when none are given."""
        if settings is None:
            if self._all_named is None:
                self._all_named = tuple(dict.fromkeys(self._named(self.settings.names())))
            return self._all_named
        return tuple(dict.fromkeys(self._named(self.settings.names(settings))))

    def settings_that_may_be_read(self, closure: Iterable[str]) -> tuple[str, ...]:
        """Return the settings files that name a class of a program which makes objects of what settings name."""
        reached = set(closure)
        paths = () if reached.isdisjoint(self._loaders) else sorted(self.settings.paths)
        return tuple(path for path in paths if not reached.isdisjoint(self.files_named([path])))

    def _named(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if name.partition(".")[0] in sys.stdlib_module_names:
                continue
            module, _, member = name.rpartition(".")
            whole = self.find(name, "")
            if whole is not None:
                yield from self.files_of(name, "")
                continue
            own = self.find(module, "")
            if own is None and "." in module:  # a method of a class: `nets.Net.build`
                module, _, member = module.rpartition(".")
                own = self.find(module, "")
            if own is not None and re.search(rf"\b{re.escape(member)}\b", self._text(own)) is not None:
                yield from self.files_of(module, "")

    def _text(self, path: str) -> str:
        source = self.project.text(path)
        if source is None and path.endswith(".ipynb"):
            loaded = self._parsed(path)
            source = loaded[0].source if loaded is not None else None
        return source.text if source is not None else ""

    def _follow_configuration(self, path: str) -> None:
        """Add what a configuration in Python takes in: `_base_ = ["../base.py"]`, `custom_imports = dict(...)`."""
        text = self._text(path)
        loaded = self.project.file(path) if _TAKES_IN.search(text) is not None else None
        for statement in loaded[0].tree.body if loaded is not None else ():
            if not isinstance(statement, ast.Assign):
                continue
            target = last_name(statement.targets[0])
            if target not in ("_base_", "custom_imports"):
                continue
            for part in (each for each in nodes_in(statement.value) if isinstance(each, ast.Constant)):
                if (value := string_value(part)) is None:
                    continue
                if target == "custom_imports":
                    files = [*self.files_of(value, path)]
                else:
                    base = posixpath.normpath(posixpath.join(posixpath.dirname(path), value))
                    files = [base] if base in self.project.paths else []
                for file in files:
                    if file != path:
                        self._connect(Edge(path, file, part.lineno))

    def _follow(self, path: str, name: str, computed: ComputedName, *, chosen: bool) -> bool:
        """Add what a computed name may mean; say whether that could be told."""
        module = f".{name.removeprefix(ROOT)}" if name.startswith(ROOT) else absolute_module(name, path)
        if HOLE in module:
            paths = self._matching(module, path)
            package = module.partition(HOLE)[0].rpartition(".")[0]
            chosen_ones = dict.fromkeys(paths, not computed.every)
            around = dict.fromkeys(self.files_of(package, path) if paths and package else (), False)
            for other, is_chosen in (chosen_ones | around).items():
                if other != path:
                    self._connect(Edge(path, other, computed.line, indented=True, chosen=is_chosen))
            stems = (file.removesuffix(".py").removesuffix("/__init__") for file in paths)
            self._note(path, (".".join(each.split("/")[-module.count(".") - 1 :]) for each in stems), computed.line)
            return bool(paths) or self._is_foreign(module, path, computed)
        files = [*self.files_of(module, path)]
        for other in files:
            if other != path:
                self._connect(Edge(path, other, computed.line, indented=True, chosen=chosen))
        self._note(path, (module,), computed.line)
        if self.find(module, path) is None:
            external = External(path, module, computed.line, computed.indented, names=(), computed=True)
            where = self.missing if files or module.startswith(".") else self.externals
            where.setdefault(path, []).append(external)
        return True

    def _note(self, path: str, modules: Iterable[str], line: int) -> None:
        self.computed.setdefault(path, []).extend(Import(module, (), line, indented=True) for module in modules)

    def _is_foreign(self, module: str, path: str, computed: ComputedName) -> bool:
        """Whether a name with holes means modules of a package that the project has not: no file of it is one."""
        package = module.partition(HOLE)[0].rpartition(".")[0]
        top = package.partition(".")[0]
        if not top or top in self._folder_names or self.find(top, path) is not None:
            return False
        external = External(path, package, computed.line, indented=True, names=(), computed=True)
        self.externals.setdefault(path, []).append(external)
        return True

    def _matching(self, module: str, importer: str) -> list[str]:
        """Return the files that a name with holes may mean: one word of the name is in each hole."""
        package, dot, _ = module.partition(HOLE)[0].rpartition(".")
        if not package.strip("."):
            return []
        folder = self._folder(package, importer)
        if folder is None:
            return []
        rest = module[len(package) + len(dot) :]
        pattern = re.compile("/".join(r"\w*".join(map(re.escape, part.split(HOLE))) for part in rest.split(".")))
        matching = []
        for path in self._below(folder):
            inner = path[len(folder) + 1 :].removesuffix(".py").removesuffix("/__init__")
            if inner != "__init__" and pattern.fullmatch(inner) is not None:
                matching.append(path)
        return matching

    def _folder(self, package: str, importer: str) -> str | None:
        """Return the folder of a package, also of one without an `__init__.py`."""
        own = self.find(package, importer)
        if own is not None:
            return own.removesuffix("/__init__.py") if own.endswith("/__init__.py") else None
        name = path_of_dotted(package)
        around = [] if package.startswith(".") else importer.split("/")[:-1]
        candidates = ["/".join([*around[:end], name]) for end in range(len(around), -1, -1)]
        return next((folder for folder in (*candidates, f"src/{name}") if any(self._below(folder))), None)

    def _below(self, folder: str) -> Iterator[str]:
        """Yield the files in a folder, and below it, in order."""
        if self._sorted is None:
            self._sorted = sorted(self.project.paths)
        for index in range(bisect_left(self._sorted, f"{folder}/"), len(self._sorted)):
            if not self._sorted[index].startswith(f"{folder}/"):
                return
            yield self._sorted[index]

    # --- what a file reaches ---

    def closure(self, start: str, also: Iterable[str] = (), settings: Iterable[str] = ()) -> dict[str, Edge | None]:
        """Return every file that a file imports, directly or not, each with the import by which it was first met.

        Args:
            start: The file.
            also: Files that are started with it.
            settings: The settings files that it is started with. Where it makes objects of the classes that settings
                name, these are the ones; without them every settings file of the project may be meant.
        """
        met: dict[str, Edge | None] = {start: None, **dict.fromkeys(also)}
        given = tuple(settings)
        todo = deque(met)
        while todo:
            path = todo.popleft()
            self.follow_computed(path)
            edges = self.edges.get(path, [])
            if path in self._loaders and given:
                named = [file for file in self.files_named(given) if file not in met]
                met |= dict.fromkeys(named)
                todo.extend(named)
            elif path in self._loaders:
                edges = [*edges, *self._loaders[path]]
            if path == start:
                edges = [*edges, *self._builds(path)]
            for edge in edges:
                if edge.path not in met:
                    met[edge.path] = edge
                    todo.append(edge.path)
        return met
