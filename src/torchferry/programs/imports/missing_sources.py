"""What an import leads to that was not read, though it belongs to the project: it is left out, or is not there.

A submodule may not be checked out, a file may be ignored or excluded, and a module may be written when the project is
built. Nobody knows what such code needs, so that a program that reaches it is not judged.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from torchferry.core.files import LARGEST_SETTINGS, read_regular, read_text
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.programs.imports.computed_names import COMPILED
from torchferry.programs.imports.module_graph import External, Modules
from torchferry.rules.mentions import STEMS
from torchferry.source.exports import absolute_module, path_of_dotted
from torchferry.source.git import is_in_repository
from torchferry.source.outline import outline
from torchferry.source.roles import Roles
from torchferry.source.tree import Listing

_LONGEST_PATH = 4096
_LONGEST_URL = 200
_LARGEST = 1 << 26
"""Bytes of a file whose words are counted."""

_SECTION = re.compile(r"^[ \t]*\[submodule [^\]\n]*\][ \t\r]*$", re.MULTILINE)
_SETTING = re.compile(r"^[ \t]*(path|url)[ \t]*=([^\n]*)", re.MULTILINE)
_SEPARATORS = re.compile(r"[-_.]+")
_ONLY_A_VERSION = re.compile(r"_{0,2}(?:version|commit|build_info|git_version|about)(?:_info)?_{0,2}\Z")
"""Modules that a build writes and that hold a version, by their names."""

_NAME = "?"
"""Stands among the names of an import where what is imported may be a name of a package rather than a module."""

_ARCHIVES = (".zip", ".egg", ".whl", ".pyz")

_CYTHON = ".pyx"

_WITHOUT_CARD = frozenset({"", "cython", "Cython", "numpy", "scipy"})
"""What Cython imports in any project, and a relative import."""

FETCH = "git submodule update --init"
"""The command that checks out submodules, as the messages here name it."""


class Submodule(NamedTuple):
    """A submodule that is not checked out: its folder, and where it comes from."""

    path: str
    url: str


def absent_submodules(root: Path) -> tuple[Submodule, ...]:
    """Return the submodules of a tree whose folder is empty or is not there."""
    try:
        text = read_text(root / ".gitmodules", LARGEST_SETTINGS, "replace")
    except OSError:
        return ()
    submodules = []
    for section in _SECTION.split(text)[1:]:
        values = {name: value.strip() for name, value in _SETTING.findall(section)}
        path = values.get("path", "").strip('"').strip("/")
        parts = path.split("/")
        if not path or len(path) > _LONGEST_PATH or {"", ".", ".."} & set(parts) or "\0" in path:
            continue
        if not _names(root / path) - {".git"}:
            submodules.append(Submodule(path, values.get("url", "")[:_LONGEST_URL]))
    return tuple(sorted(set(submodules)))


def words_of_cuda(path: Path) -> int | None:
    """Return how many words of CUDA a file holds, or None when it cannot be read; a link is not followed."""
    try:
        if os.path.islink(path):
            return None
        lowered = read_regular(path, _LARGEST).lower()
    except OSError:
        return None
    return sum(lowered.count(stem.encode()) for stem in STEMS)


def _packages_of(module: str) -> Iterator[str]:
    """Yield the packages of a dotted module, the innermost first: one in between may have no `__init__.py`."""
    package = module.rpartition(".")[0]
    while package.strip("."):
        yield package
        package = package.rpartition(".")[0]


class MissingSources:
    """Says of an import why what it leads to was not read.

    Args:
        root: The project's folder.
        read: The Python files that were read.
        listing: What was left out, where that is known.
        compiled: Modules that the project's build scripts make.
        roles: Says which files are started.
    """

    def __init__(
        self, root: Path, read: frozenset[str], listing: Listing | None, compiled: frozenset[str], roles: Roles
    ) -> None:
        self.root = root
        self._roles = roles
        self.read = read
        self.compiled = compiled
        self.submodules = absent_submodules(root)
        self._ignored = frozenset(listing.ignored if listing is not None else ())
        self._excluded = frozenset(listing.excluded if listing is not None else ())
        self._left = frozenset(skip.path for skip in listing.skipped) if listing is not None else frozenset()
        self._by_name = {_plain(sub.path.rpartition("/")[2]): sub for sub in self.submodules}
        self._imports: dict[str, list[tuple[External, Message]]] = {}
        self._reasons: dict[tuple[str, str, bool], Message | None] = {}
        self._stems: dict[str, frozenset[str]] = {}
        self._bases: dict[str, tuple[str, ...]] = {}
        self._archives: dict[str, dict[str, frozenset[str] | None]] = {}
        self._folders = _folders(read)
        self._listings: dict[str, frozenset[str]] = {}
        self._with_programs: dict[str, bool] = {}

    def _fetch(self, submodule: Submodule) -> str:
        """Return the command that fetches a submodule; outside of a work tree of git it is cloned to its place."""
        if is_in_repository(self.root.resolve()):
            return FETCH
        return f"git clone -- {shlex.quote(submodule.url)} {shlex.quote(submodule.path)}"

    def imports(self, path: str, modules: Modules) -> list[tuple[External, Message]]:
        """Return the imports of a file that lead to what was not read, each with the reason."""
        if path not in self._imports:
            reasons = [(external, self.why(external)) for external in self._led_to(path, modules)]
            reasons += self._packages_on_the_way(path, modules)
            self._imports[path] = [(external, why) for external, why in reasons if why is not None]
        return self._imports[path]

    def _packages_on_the_way(self, path: str, modules: Modules) -> Iterator[tuple[External, Message | None]]:
        """Yield the packages that Python runs before the modules that a file imports, and whose file was not read."""
        computed = modules.computed.get(path, ())
        for imported in (*modules.imports.get(path, ()), *computed):
            named = imported.module if imported in computed else absolute_module(imported.module, path)
            unread: dict[str, Message | None] = {}
            for module in (named, *(f"{named}.{name}" for name in imported.names if name != "*")):
                unread |= self.packages_around(module, modules.find(module, path))
            for package, why in unread.items():
                yield External(path, package, imported.line, imported.indented, (), imported in computed), why

    def packages_around(self, module: str, own: str | None) -> dict[str, Message | None]:
        """Return the packages around a module whose own files exist and were not read, each with the reason.

        Args:
            module: Its name.
            own: Its file; None where the project has none.
        """
        inner = path_of_dotted(module)
        whole = own.removesuffix(".py").removesuffix("/__init__") if own is not None else ""
        base = whole.removesuffix(inner)
        unread: dict[str, Message | None] = {}
        for package in _packages_of(module) if whole != base else ():
            folder = f"{base}{path_of_dotted(package)}"
            init = f"{folder}/__init__.py"
            if init not in self.read and "__init__.py" in self._listing(folder):
                unread[package] = self._why_not_read(init)
        return unread

    def _led_to(self, path: str, modules: Modules) -> Iterator[External]:
        """Yield what a file imports and is no file that was read: packages, and modules that lack in own packages."""
        yield from modules.externals.get(path, ())
        for imported in modules.imports.get(path, ()):
            module = absolute_module(imported.module, path)
            own = modules.find(module, path)
            if own is None and any(modules.find(package, path) is not None for package in _packages_of(module)):
                yield External(path, module, imported.line, imported.indented, imported.names)
            elif own is not None and own.endswith("/__init__.py"):
                for name in imported.names:
                    if name != "*" and modules.find(f"{module}.{name}", path) is None:
                        names = (_NAME,) if modules.may_bind(own, name, path) else ()
                        yield External(path, f"{module}.{name}", imported.line, imported.indented, names)

    def why(self, external: External) -> Message | None:
        """Return why what an import leads to was not read; None where nothing of the project is meant."""
        may_be_name = external.names == (_NAME,)
        key = (external.module, external.importer.rpartition("/")[0], may_be_name)
        if key not in self._reasons:  # files of a folder mostly import the same
            self._reasons[key] = self._why(external, may_be_name=may_be_name)
        return self._reasons[key]

    def _why(self, external: External, *, may_be_name: bool) -> Message | None:
        module = external.module
        if not module.strip("."):
            return None
        submodule = self._submodule(module, external.importer)
        if submodule is not None:
            return say(
                "the submodule {path}, which is not checked out, has `{module}`; `{command}`",
                module=_shown(module),
                path=submodule.path,
                command=self._fetch(submodule),
            )
        archive = self._archive(module, external.importer)
        if archive:
            return say("the archive {path}, which is not opened, has `{module}`", module=module, path=archive)
        name = module.rpartition(".")[2]
        path = next(self._places(module, external.importer), None)
        if path is None or path.endswith(COMPILED):
            path = self._source_of_build(module, external.importer) or path
        if path is not None:
            return self._why_not_read(path)
        inner = path_of_dotted(module)
        if any(_below(base, inner) in self._folders for base in self._bases_of(module, external.importer)):
            return None  # a package without an `__init__.py`
        is_own = module.startswith(".") or self._starts_in_own(module, external.importer)
        if not is_own or may_be_name or name in self.compiled or _ONLY_A_VERSION.match(name):
            return None
        return say("the tree has no file for `{module}`; a build may write it", module=_shown(module))

    def _source_of_build(self, module: str, importer: str) -> str | None:
        """Return the Cython beside a file of which the build puts what it makes into its own folder, or None.

        Before it is built that folder is not there, or is empty but for `.gitkeep` and the like; later it holds nothing
        but what was.
        """
        package, _, name = module.rpartition(".")
        folder = importer.rpartition("/")[0]
        if f"{name}.pyx" not in self._listing(folder):
            return None
        built = self._listing(_below(folder, package.rpartition(".")[2]))
        others = (each for each in built if not each.startswith(".") and not each.endswith(COMPILED))
        return None if any(others) else _below(folder, f"{name}.pyx")

    def why_astray(self, external: External, modules: Modules, text: str) -> Message | None:
        """Return why a package of which nobody knows may be the project's, though no file is found by its name.

        Args:
            external: The import.
            modules: The imports of the project.
            text: The text of the file that imports it.
        """
        module, importer = external.module, external.importer
        top = module.partition(".")[0]
        if not top or top in sys.stdlib_module_names or top in self.compiled:
            return None
        submodule = self.added_in(text)
        if submodule is not None:
            return say(
                "`{module}` may be in the submodule {path}, which this file adds to Python's path "
                "and which is not checked out; `{command}`",
                module=module,
                path=submodule.path,
                command=self._fetch(submodule),
            )
        archive = self._unopened_archive(module, importer, text)
        if archive:
            return say("`{module}` may be in the archive {path}, whose list is not read", module=module, path=archive)
        elsewhere = modules.only_file_of(module) if external.names else None
        if elsewhere is not None and elsewhere != importer and modules.defines(elsewhere, external.names):
            return say(
                "`{module}` is found only with the folder of {path} on Python's path, and nothing adds it",
                module=module,
                path=elsewhere,
            )
        folder = importer.rpartition("/")[0]
        listing = self._listing(folder)
        on_path = frozenset() if "__init__.py" in listing else listing  # modules of a package are not imported by name
        for name in sorted({*on_path, *self._listing("")}):
            stem = name.removesuffix(".py")
            if stem != top and stem.lower() == top.lower() and self._is_module(folder, name):
                return say(
                    "`{module}` is not in the tree, but {name} is: Python distinguishes capital letters",
                    module=module,
                    name=name,
                )
        return None

    def added_in(self, text: str) -> Submodule | None:
        """Return the submodule that is not there and that a text adds to Python's path, or None."""
        if "sys.path" not in text:
            return None
        return next((submodule for submodule in self.submodules if _is_quoted(submodule.path, text)), None)

    def why_astray_after(self, external: External, program: str, submodule: Submodule) -> Message | None:
        """Return why a package of which nobody knows may be the project's: the program adds where it may be found.

        Args:
            external: The import, in another file than the program's.
            program: The file that is started.
            submodule: What it adds to Python's path.
        """
        top = external.module.partition(".")[0]
        if not top or top in sys.stdlib_module_names or top in self.compiled:
            return None
        return say(
            "`{module}` may be in the submodule {path}, which {program} adds to Python's path "
            "and which is not checked out; `{command}`",
            module=external.module,
            path=submodule.path,
            command=self._fetch(submodule),
            program=program,
        )

    def _is_module(self, folder: str, name: str) -> bool:
        """Whether a name of a folder, or of the root, is a module or a package that was read."""
        places = [name, f"{name}/__init__.py"]
        return any(place in self.read or (folder and f"{folder}/{place}" in self.read) for place in places)

    def _starts_in_own(self, module: str, importer: str) -> bool:
        """Whether a package of a dotted module is a folder of the project whose `__init__` was read."""
        inits = [f"{package.replace('.', '/')}/__init__.py" for package in _packages_of(module)]
        own = importer.rpartition("/")[0]
        return any(
            _below(base, init) in self.read
            for base in (self._bases_of(module, importer) if inits else ())
            # a module of a package imports its neighbours by the package's name
            if _below(base, "__init__.py") not in self.read or (base == own and self._holds_program(own))
            for init in inits
        )

    def _holds_program(self, folder: str) -> bool:
        """Whether a file of a folder is started, so that Python looks for modules there."""
        if folder not in self._with_programs:
            paths = (_below(folder, name) for name in self._listing(folder) if name.endswith(".py"))
            self._with_programs[folder] = any(self._roles.is_started(path) for path in paths)
        return self._with_programs[folder]

    def _submodule(self, module: str, importer: str) -> Submodule | None:
        if not self.submodules:
            return None
        parts = path_of_dotted(module).split("/")
        if not module.startswith(".") and _plain(parts[0]) in self._by_name:
            return self._by_name[_plain(parts[0])]
        for base in self._bases_of(module, importer):
            whole = _below(base, "/".join(parts))
            for submodule in self.submodules:
                if whole == submodule.path or whole.startswith(f"{submodule.path}/"):
                    return submodule
        return None

    def _archive(self, module: str, importer: str) -> str:
        """Return the archive beside a file, or above it, that holds a module, for where it is on the path."""
        top = module.partition(".")[0]
        for folder in self._bases_of(module, importer) if top else ():
            for path, names in self._archives_in(folder).items():
                if names is not None and top in names:
                    return path
        return ""

    def _unopened_archive(self, module: str, importer: str, text: str) -> str:
        """Return the archive, where `_archive` looks, whose list was not read; data are in those that no text names."""
        for folder in self._bases_of(module, importer):
            for path, names in self._archives_in(folder).items():
                if names is None and (not path.endswith(".zip") or path.rpartition("/")[2] in text):
                    return path
        return ""

    def _archives_in(self, folder: str) -> dict[str, frozenset[str] | None]:
        """Return the archives in a folder, in order, each with the packages and modules that it holds, if known."""
        if folder not in self._archives:
            paths = [_below(folder, name) for name in sorted(self._listing(folder)) if name.endswith(_ARCHIVES)]
            self._archives[folder] = {path: _modules_in(self.root / path) for path in paths}
        return self._archives[folder]

    def _bases_of(self, module: str, importer: str) -> tuple[str, ...]:
        """Return the folders that a module is looked for in: relative ones count from the root."""
        if module.startswith("."):
            return ("",)
        folder = importer.rpartition("/")[0]
        if folder not in self._bases:
            names = folder.split("/") if folder else []
            self._bases[folder] = (*("/".join(names[:end]) for end in range(len(names), -1, -1)), "src")
        return self._bases[folder]

    def _places(self, module: str, importer: str) -> Iterator[str]:
        """Yield files and folders of the tree that a module may be and that were not read."""
        parts = path_of_dotted(module).split("/")
        for base in self._bases_of(module, importer):
            if parts[0] not in self._stems_of(base):
                continue
            folder = _below(base, "/".join(parts[:-1]))
            listing = self._listing(folder)
            for name in (f"{parts[-1]}.py", f"{parts[-1]}{_CYTHON}"):
                path = f"{folder}/{name}" if folder else name
                if name in listing and path not in self.read:
                    yield path
            own = f"{folder}/{parts[-1]}" if folder else parts[-1]
            inside = self._listing(own) if parts[-1] in listing else frozenset()
            inner = f"{own}/__init__.py"
            if ("__init__.py" in inside and inner not in self.read) or own in self._left:
                yield own
            for name in listing if module.startswith(".") else ():
                if name.startswith(f"{parts[-1]}.") and name.endswith(COMPILED):
                    yield f"{folder}/{name}" if folder else name

    def _why_not_read(self, path: str) -> Message | None:
        if path.endswith(_CYTHON):
            if words_of_cuda(self.root / path) != 0:
                return say("{path} is Cython, which is not read, and mentions CUDA", path=path)
            others = self._imports_of_cython(path)
            if not others:
                return None
            return say("{path} is Cython, which is not read, and imports {names}", path=path, names=", ".join(others))
        if path.endswith(COMPILED):
            return say("{path} is compiled and was not read", path=path)
        if self._among(path, self._ignored):
            return say("a .gitignore file hides {hidden}", hidden=path)
        if self._among(path, self._excluded):
            return say("{path} is left out by the settings or by `--exclude`", path=path)
        if path in self._left:
            return say("{path} is a link that leaves the project; it is not followed", path=path)
        return say(
            "{path} was not examined: git ignores it, it is in a third-party package, or the file "
            "that you named lies in no project",
            path=path,
        )

    def _imports_of_cython(self, path: str) -> list[str]:
        """Return the packages that Cython imports when it runs, those left out that have no code for a card."""
        try:
            packages = outline(path, read_regular(self.root / path, _LARGEST)).packages
        except OSError:
            return ["?"]
        return sorted(packages - sys.stdlib_module_names - _WITHOUT_CARD)

    @staticmethod
    def _among(path: str, files: frozenset[str]) -> bool:
        return path in files or any(file.startswith(f"{path}/") for file in files)

    def _stems_of(self, folder: str) -> frozenset[str]:
        """Return what the files and folders of a folder may be as modules."""
        if folder not in self._stems:
            self._stems[folder] = frozenset(name.partition(".")[0] for name in self._listing(folder))
        return self._stems[folder]

    def _listing(self, folder: str) -> frozenset[str]:
        if folder not in self._listings:
            self._listings[folder] = _names(self.root / folder)
        return self._listings[folder]


def _below(folder: str, inner: str) -> str:
    """Return a path in a folder; the root has no name, and neither has the folder itself."""
    return f"{folder}/{inner}" if folder and inner else folder or inner


def _shown(module: str) -> str:
    """Return a module as a message names it."""
    return path_of_dotted(module).replace("/", ".")


def _is_quoted(path: str, text: str) -> bool:
    """Whether a text holds a path in quotes, as Python writes it, or a notebook."""
    return re.search(rf"[\"'](?:\./)?{re.escape(path)}/?\\?[\"']", text) is not None


def _modules_in(archive: Path) -> frozenset[str] | None:
    """Return the packages and modules of an archive, by its list of files; what only has the name of one has none.

    None where it is not read: it is a link, so large that its list may be, too, or broken.
    """
    try:
        if os.path.islink(archive) or os.lstat(archive).st_size > _LARGEST:
            return None
        with ZipFile(archive) as opened:
            names = [name for name in opened.namelist() if name.endswith(".py")]
    except (OSError, BadZipFile, ValueError, NotImplementedError):
        return None if archive.suffix == ".zip" else frozenset()
    return frozenset(name.partition("/")[0].removesuffix(".py") for name in names)


def _folders(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders of some files, and those around them."""
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return frozenset(folders)


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def _plain(name: str) -> str:
    return _SEPARATORS.sub("_", name).lower()
