"""Where symbols may be defined on this machine: libraries that are loaded along, others, and sources."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.folders import walk
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.doctor.symbols.elf import SharedLibrary, architecture_of, read_library

_MOST_LIBRARIES = 500
_MOST_FILES = 60_000
_LARGEST_SOURCE = 4_000_000
_DEEPEST = 12
_SOURCES = frozenset(
    {".cpp", ".cc", ".cxx", ".c", ".cu", ".cuh", ".mu", ".muh", ".h", ".hpp", ".hh", ".inl", ".scpp", ".asc"}
)
_BUILD_FILES = frozenset({"setup.py", "CMakeLists.txt", "meson.build", "BUILD", "BUILD.bazel", "Makefile"})
_DECLARES = lazy_regex(r"(?:\b(?!return\b|else\b|do\b)\w+[\s*&]+|>\s*|[*&]|::)\Z")
"""What precedes a name that is declared: a type. Before a call stands an operator, or nothing."""

_LIBRARY_NAME = lazy_regex(r".+\.so(?:\.\d+)*\Z")


class Loaded(NamedTuple):
    """What the loader would load with a library.

    Attributes:
        libraries: Those that were found, in the order in which symbols are looked for.
        missing: Names that were found nowhere, with the library that needs each.
        other: Files that are for another architecture, or cannot be read, by the name that is needed.
    """

    libraries: tuple[SharedLibrary, ...]
    missing: tuple[tuple[str, str], ...]
    other: tuple[tuple[str, str], ...]


class Definition(NamedTuple):
    """A place of a source that defines a function.

    Attributes:
        path: Of the file.
        line: From 1.
        whole: Whether a body follows; a declaration has none.
    """

    path: str
    line: int
    whole: bool


def loaded_with(library: SharedLibrary, folders: Iterable[str]) -> Loaded:
    """Return what the loader would load with a library; folders are searched behind its own."""
    found: dict[str, SharedLibrary] = {}
    missing: dict[str, str] = {}
    other: dict[str, str] = {}
    waiting = [library]
    searched = list(folders)
    while waiting and len(found) < _MOST_LIBRARIES:
        current = waiting.pop(0)
        origin = os.path.dirname(os.path.realpath(current.path))
        own = [path.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for path in current.run_paths]
        for name in current.needed:
            if name in found or name in missing or name in other:
                continue
            places = [name] if "/" in name else [os.path.join(folder, name) for folder in (*own, *searched)]
            files = [place for place in places if os.path.isfile(place)]
            same = next((file for file in files if architecture_of(Path(file)) == library.machine), None)
            if same is None:
                (other if files else missing)[name] = files[0] if files else current.path
                continue
            try:
                found[name] = read_library(same)
            except TorchferryError:
                other[name] = same
                continue
            waiting.append(found[name])
    return Loaded(tuple(found.values()), tuple(missing.items()), tuple(other.items()))


def package_libraries(module: str) -> Iterator[Path]:
    """Yield the libraries of an installed package, which is not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        yield from libraries_in(Path(folder) / "lib")
        yield from libraries_in(Path(folder), deep=False)


def libraries_in(folder: Path, deep: bool = True) -> Iterator[Path]:
    """Yield the shared libraries of a folder, and of those below it; links are not followed to folders."""
    if folder.is_file():
        yield folder
        return
    for path in _walk(folder, 1 if not deep else _DEEPEST):
        if _LIBRARY_NAME.match(path.name):
            yield path


def definitions(name: str, folder: Path) -> list[Definition]:
    """Return the places below a folder that define or declare a function, those with a body first.

    Args:
        name: Without namespaces.
        folder: With sources of C++.
    """
    if not name.isidentifier():
        return []
    call = lazy_regex(rf"(?<![\w.>]){name}\s*(?:<[^;{{}}()]{{0,300}}>)?\s*\(")
    found = []
    for path in _walk(folder, _DEEPEST):
        if path.suffix not in _SOURCES:
            continue
        try:
            data = read_regular(path, _LARGEST_SOURCE)
        except OSError:
            continue
        if name.encode() not in data:
            continue
        text = data.decode("latin-1")
        for match in call.finditer(text):
            whole = _has_body(text, match.end())
            if whole or (whole is False and _DECLARES.search(text[max(0, match.start() - 80) : match.start()])):
                found.append(Definition(str(path), text.count("\n", 0, match.start()) + 1, bool(whole)))
    return sorted(found, key=lambda each: not each.whole)


def build_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files below a folder that say what is compiled, with their text."""
    for path in _walk(folder, _DEEPEST):
        if path.name in _BUILD_FILES or path.suffix in (".cmake", ".bzl"):
            try:
                yield path, read_regular(path, _LARGEST_SOURCE).decode("utf-8", "replace")
            except OSError:
                continue


def _has_body(text: str, at: int) -> bool | None:
    """Whether a body follows the arguments that begin at an offset; None where it is a call."""
    depth, limit = 1, min(len(text), at + 4000)
    while at < limit and depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    rest = text[at : at + 200].lstrip()
    for word in ("const", "noexcept", "override", "final"):
        rest = rest.removeprefix(word).lstrip()
    if rest[:1] == "{" or rest[:2] == "->":
        return True
    return False if rest[:1] == ";" else None


def _walk(folder: Path, deepest: int) -> Iterator[Path]:
    count = 0
    for current, folders, files in walk(folder, lenient=True):
        depth = len(Path(current).parts) - len(folder.parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth + 1 < deepest else []
        for name in sorted(files):
            path = Path(current) / name
            if path.is_file():
                count += 1
                if count > _MOST_FILES:
                    return
                yield path
