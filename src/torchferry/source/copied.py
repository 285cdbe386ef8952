"""Where the module with the portable names lies, so that each program of a project can import it.

Python looks for modules in the folder of the program that was started, which is seldom the root of a repository. For
each file the folders are worked out that must be on its path: its own if it is started, those from which other files
import it, and those from which it imports modules of the project. As few copies as possible are placed so that each
file can import one; a copy that is there already is taken first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torchferry.core.files import read_regular
from torchferry.core.record import NamedTuple
from torchferry.core.vendored import CHECKSUM, FIRST
from torchferry.source.exports import absolute_module
from torchferry.source.kinds import Kind
from torchferry.source.outline import Outline, outline
from torchferry.source.project import Project
from torchferry.source.tree import Listing


class PortableModule(NamedTuple):
    """Where a file finds the portable names.

    Attributes:
        path: The file with them, relative to the root.
        module: What it is imported as.
    """

    path: str
    module: str

    @property
    def folder(self) -> str:
        """The folder that must be on Python's path."""
        return _folder_of(self.path, self.module)


class Placement(NamedTuple):
    """Where the files of a project find the portable names.

    Attributes:
        of_file: For each file that may need them, its place.
        copies: The copies that are there already.
        unreachable: Files that are both started and imported, by themselves or as a part of a package, from folders
            that have no module in common.
    """

    of_file: Mapping[str, PortableModule]
    copies: tuple[str, ...]
    unreachable: tuple[str, ...] = ()


def copies_in(root: Path, listing: Listing) -> tuple[str, ...]:
    """Return the files that torchferry wrote, the ones nearest to the root first."""
    entries = sorted(listing.entries, key=lambda entry: (entry.path.count("/"), entry.path))
    return tuple(entry.path for entry in entries if entry.kind is Kind.PYTHON and _is_copy(root / entry.path))


def place_module(root: Path, listing: Listing, words: Iterable[bytes], name: str) -> Placement:
    """Choose where each file of a project finds the portable names.

    Args:
        root: The project's folder.
        listing: Its files.
        words: A file that holds one of these may need them.
        name: What a new copy is called.
    """
    files = _Files(root, listing)
    copies = copies_in(root, listing)
    wanted = tuple(word.lower() for word in (*words, name.removesuffix(".py").encode()))
    needing = sorted(
        path for path, data in files.contents() if path not in copies and any(word in data.lower() for word in wanted)
    )
    roots = {path: files.roots(path) for path in needing}
    of_file: dict[str, PortableModule] = {}
    unserved = set(needing)
    while unserved:
        best = min(
            {folder for path in unserved for folder in roots[path].folders},
            key=lambda folder: (
                not any(_below(copy, folder) for copy in copies),
                -sum(folder in roots[path].folders for path in unserved),
                folder.count("/") + bool(folder),
                folder,
            ),
        )
        covered = sorted(path for path in unserved if best in roots[path].folders)
        place, served = files.place(best, covered, copies, name)
        of_file |= dict.fromkeys(served, place)
        unserved -= set(served)
    return Placement(of_file, copies, tuple(path for path in needing if roots[path].conflict))


class _Roots(NamedTuple):
    """Folders that are on Python's path wherever a file runs, and whether none is in all cases."""

    folders: frozenset[str]
    conflict: bool


class _Files:
    """The Python files and notebooks of a project, and how they import each other."""

    def __init__(self, root: Path, listing: Listing) -> None:
        self.root = root
        self.kinds = {entry.path: entry.kind for entry in listing.entries if entry.kind in (Kind.PYTHON, Kind.NOTEBOOK)}
        python = [path for path, kind in self.kinds.items() if kind is Kind.PYTHON]
        self.project = Project(root, python)
        self._data: dict[str, bytes] = {}
        self.outlines: dict[str, Outline] = {}
        for path, kind in self.kinds.items():
            try:
                self._data[path] = read_regular(root / path)
            except OSError:
                continue
            text = self._data[path]
            if kind is Kind.NOTEBOOK:  # its lines are strings of JSON
                text = text.replace(b'\\n",', b"").replace(b'    "', b"\n").replace(b'\\n"', b"")
            self.outlines[path] = outline(path, text)
        self.imports: dict[str, set[tuple[str, str]]] = {}
        self.imported_from: dict[str, set[str]] = {}
        self.relative: set[str] = set()
        self._inside: dict[str, str] = {}
        relative: list[str] = []
        for path, of_file in self.outlines.items():
            for module, target in self._targets(of_file):
                if module.startswith("."):
                    self.relative.add(path)
                    relative.append(target)
                    continue
                folder = _folder_of(target, module)
                self.imports.setdefault(path, set()).add((folder, module.partition(".")[0]))
                for above in _between(folder, target):
                    self._inside.setdefault(above, folder)
                if target != path:
                    self.imported_from.setdefault(target, set()).add(folder)
        self._roots_named = {folder for folders in self.imports.values() for folder, _ in folders}
        for target in relative:
            self.imported_from.setdefault(target, set()).add(self.package_root(target))

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files with what they hold."""
        yield from self._data.items()

    def _targets(self, of_file: Outline) -> Iterator[tuple[str, str]]:
        """Yield the modules of the project that a file imports, each with the file that it is."""
        for imported in of_file.imports:
            absolute = absolute_module(imported.module, of_file.path)
            for module in (absolute, *(f"{absolute}.{name}" for name in imported.names if name != "*")):
                target = self.project.module_path(module, of_file.path)
                if target is not None:
                    yield module, target

    def package_root(self, path: str) -> str:
        """Return the folder from which a file's package is imported: that of the file itself where it is in none.

        The folders above a package may have no `__init__.py` and be part of its name all the same: `import a.b.package`
        says so, for all that lies in `a/b`.
        """
        own = folder = path.rpartition("/")[0]
        while folder and f"{folder}/__init__.py" in self.project.paths:
            folder = folder.rpartition("/")[0]
        return folder if folder == own or folder in self._roots_named else self._inside.get(folder, folder)

    def roots(self, path: str) -> _Roots:
        """Return the folders that are on Python's path where a file runs."""
        own, package = path.rpartition("/")[0], self.package_root(path)
        started = self.kinds[path] is Kind.NOTEBOOK or self.outlines[path].is_program
        imported = self.imported_from.get(path, set())
        if package != own and (not started or self._is_library(path, package)):
            imported = imported | {package}
        if imported and not started:
            return _Roots(frozenset(imported), False)
        as_program = {folder for folder, _ in self.imports.get(path, ())}
        if path not in self.relative:
            as_program.add(own)
        elif not as_program:
            as_program = {package}  # `python -m package.program`
        if not imported:
            return _Roots(frozenset(as_program), False)
        both = imported & as_program
        return _Roots(frozenset(both or imported), not both)

    def _is_library(self, path: str, package: str) -> bool:
        """Whether a file with a program's part lies among modules that others import from their package's folder.

        Its program's part is a self-test then, and users import the file as they import its neighbours. A file that
        imports modules by its own folder or by another one says itself how it is started.
        """
        if self.imports.get(path) or path in self.relative:
            return False
        top = path.removeprefix(f"{package}/" if package else "").partition("/")[0]
        below = f"{package}/{top}/" if package else f"{top}/"
        return any(package in folders and target.startswith(below) for target, folders in self.imported_from.items())

    def place(
        self, folder: str, covered: list[str], copies: tuple[str, ...], name: str
    ) -> tuple[PortableModule, list[str]]:
        """Choose a place below a folder that is on the path of some files; return the files that it serves."""
        for copy in copies:
            if _below(copy, folder):
                return PortableModule(copy, _module(copy, folder)), covered
        packages = {path: self._packages(path, folder) for path in covered}
        shared = set.intersection(*packages.values()) if covered else set()
        inside = {path.removeprefix(f"{folder}/" if folder else "").partition("/")[0] for path in covered}
        chosen = sorted(shared, key=lambda package: (package not in inside, package))
        below = "/".join(part for part in (folder, chosen[0] if chosen else "") if part)
        path = f"{below}/{name}" if below else name
        return PortableModule(path, _module(path, folder)), covered

    def _packages(self, path: str, folder: str) -> set[str]:
        """Return the packages of a folder that a file is in, or imports."""
        packages = {top for imported, top in self.imports.get(path, ()) if imported == folder}
        rest = path.removeprefix(f"{folder}/" if folder else "")
        if "/" in rest:
            packages.add(rest.partition("/")[0])
        return {top for top in packages if "/".join(filter(None, (folder, top, "__init__.py"))) in self.project.paths}


def _between(folder: str, target: str) -> Iterator[str]:
    """Yield the folders below one, down to that of a file."""
    above = target.rpartition("/")[0]
    while len(above) > len(folder):
        yield above
        above = above.rpartition("/")[0]


def _below(copy: str, folder: str) -> bool:
    return copy.startswith(f"{folder}/") if folder else True


def _module(path: str, folder: str) -> str:
    return path.removeprefix(f"{folder}/" if folder else "").removesuffix(".py").replace("/", ".")


def _folder_of(target: str, module: str) -> str:
    """Return the folder from which a file is imported under the name of a module."""
    parts = target.removesuffix(".py").removesuffix("/__init__").split("/")
    return "/".join(parts[: len(parts) - len(module.split("."))])


def _is_copy(path: Path) -> bool:
    try:
        lines = read_regular(path).split(b"\n", 2)
    except OSError:
        return False
    return len(lines) == 3 and all(
        line.startswith(marked.encode()) for line, marked in zip(lines, (FIRST, CHECKSUM), strict=False)
    )
