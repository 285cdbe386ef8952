"""Which distribution of an environment a module belongs to, and which files it has.

Everything here is read, nothing imported: metadata may be broken, lists of files may lie, and folders may hold links
that lead elsewhere. A file belongs to an environment only if it lies below one of its folders without a link on the
way.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from torchferry.backends.tables import normalised
from torchferry.core.files import read_regular
from torchferry.core.messages import Message, say
from torchferry.installed.environment import Environment
from torchferry.installed.model import EXTENSION, MODULE_NAME, module_of

_LARGEST_RECORD = 1 << 25
_LARGEST_METADATA = 1 << 20
_MOST_FILES = 60_000
"""Files of one distribution that are listed."""

_DEEPEST = 40
"""Folders below each other that are walked."""

_FIELD = re.compile(rb"^(Name|Version):[ \t]*([^\r\n]*)", re.MULTILINE | re.IGNORECASE)
_ARCHIVES = (".egg", ".zip", ".whl", ".pyz")


@dataclass(frozen=True)
class Distribution:
    """One installed distribution, or a package that no distribution claims.

    Attributes:
        name: Its name, as its metadata say, else as its folder is called.
        version: Its version; empty where nothing says it.
        folder: The folder of packages that it lies in.
        record: Its list of files, as it is on the disk; None where there is none.
        problem: What is wrong with its metadata, or None.
        editable: Whether it lies outside of the folders of packages, in a tree that someone works on.
        top: The package or module that it was found by, where there is no list of files.
    """

    name: str
    version: str
    folder: Path
    record: bytes | None = field(default=None, repr=False)
    problem: Message | None = None
    editable: bool = False
    top: str = ""

    @cached_property
    def digest(self) -> str:
        """A hash of the list of files; without one, of the names, sizes and times of the files."""
        if self.record is not None:
            return hashlib.sha256(self.record).hexdigest()
        sha256 = hashlib.sha256(self.top.encode("utf-8", "surrogateescape"))
        for path in self.files:
            try:
                status = os.lstat(self.folder / path)
            except OSError:
                continue
            sha256.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
        return sha256.hexdigest()

    @cached_property
    def listed(self) -> tuple[tuple[str, ...], bool]:
        """Its files below `folder`, with `/`, in order, and whether they are all."""
        if self.record is not None:
            paths = sorted(set(_recorded(self.record)))
        else:
            paths = sorted(_walked(self.folder, self.top))
        return tuple(paths[:_MOST_FILES]), len(paths) <= _MOST_FILES

    @property
    def files(self) -> tuple[str, ...]:
        """Its files below `folder`, with `/`, in order."""
        return self.listed[0]

    @cached_property
    def modules(self) -> dict[str, str]:
        """The modules that its files are, with their files; a package by its `__init__`."""
        by_module: dict[str, str] = {}
        for path in self.files:
            module = module_of(path)
            if module and (module not in by_module or path.endswith(".py")):
                by_module[module] = path
        return by_module


@dataclass(frozen=True)
class Located:
    """Where a module that is asked for lies.

    Attributes:
        distribution: What it belongs to.
        package: The regular package or single module that is opened, such as `nvidia.dali` in a namespace.
        module: The deepest module on the way to what was requested.
    """

    distribution: Distribution
    package: str
    module: str


def _recorded(record: bytes) -> Iterator[str]:
    """Yield the paths of a RECORD that lie below its folder; others, as of scripts, are left out."""
    for line in record.decode("utf-8", "surrogateescape").splitlines():
        path = line.rsplit(",", 2)[0]
        if path.startswith('"') and path.endswith('"'):
            path = path[1:-1].replace('""', '"')
        if _is_below(path) and not path.endswith((".pyc", "/")):
            yield path


def _is_below(path: str) -> bool:
    if not path or "\0" in path or "\\" in path:
        return False
    whole = f"/{path}/"
    return "//" not in whole and "/./" not in whole and "/../" not in whole


def _walked(folder: Path, top: str) -> Iterator[str]:
    """Yield the files of a package or module that no list names; links are not followed."""
    yield from _files_at(folder, top, 0)
    for name in _names(folder):
        if name.startswith(f"{top}.") and (name == f"{top}.py" or EXTENSION.search(name)):
            yield name
    libraries = f"{top}.libs"
    yield from _files_at(folder, libraries, 0)


def _files_at(folder: Path, below: str, depth: int) -> Iterator[str]:
    place = folder / below
    try:
        if os.path.islink(place) or depth > _DEEPEST:
            return
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{below}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in ("__pycache__", ".git", "node_modules"):
                yield from _files_at(folder, path, depth + 1)
        elif not entry.name.endswith(".pyc"):
            yield path


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


class Index:
    """Finds modules in the folders of an environment, each folder listed once."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.mapped = dict(environment.mapped)
        self.remarks: list[Message] = []
        self._archives: dict[str, str] | None = None
        self._listings: dict[Path, frozenset[str]] = {}
        self._owners: dict[Path, dict[str, list[Distribution]]] = {}
        self._found: dict[tuple[Path, str], Distribution] = {}

    def locate(self, module: str) -> Located | None:
        """Return where a module lies, or None: it is not of the environment, or only a folder without modules."""
        parts = module.split(".")
        if not all(map(MODULE_NAME.match, parts)):
            return None
        folders = list(self.environment.folders)
        mapped = self.mapped.get(parts[0])
        if mapped is not None:
            folders = [mapped.parent]
        return self._below(folders, [], parts)

    def archive(self, module: str) -> str | None:
        """Return the archive on the path that a module may lie in, by its name, or None."""
        if self._archives is None:
            self._archives = {
                normalised(name.partition("-")[0]): name
                for folder in self.environment.folders
                for name in self._listing(folder)
                if name.endswith(_ARCHIVES) and (folder / name).is_file()
            }
        return self._archives.get(normalised(module.partition(".")[0]))

    def _below(self, folders: list[Path], before: list[str], rest: list[str]) -> Located | None:
        """Look for the first of `rest` in portions of a namespace, as Python does: the first that is a module wins."""
        portions: list[Path] = []
        name = rest[0]
        inside = "/".join(before)
        for folder in folders:
            entries = self._listing(folder / inside)
            if name in entries and "__init__.py" in self._listing(folder / inside / name):
                return self._located(folder, [*before, name], rest[1:])
            if any(entry == f"{name}.py" or self._is_extension(entry, name) for entry in entries):
                return self._located(folder, [*before, name], [])
            if name in entries and self._listing(folder / inside / name):
                portions.append(folder)
        if portions and len(rest) > 1:
            return self._below(portions, [*before, name], rest[1:])
        return None

    def _is_extension(self, entry: str, name: str) -> bool:
        return entry.startswith(f"{name}.") and bool(EXTENSION.fullmatch(entry[len(name) :]))

    def _located(self, folder: Path, package: list[str], rest: list[str]) -> Located:
        owner = self.owner(folder, package)
        deepest = ".".join(package)
        for part in rest:
            if f"{deepest}.{part}" not in owner.modules:
                break
            deepest = f"{deepest}.{part}"
        return Located(owner, ".".join(package), deepest)

    def _listing(self, folder: Path) -> frozenset[str]:
        listing = self._listings.get(folder)
        if listing is None:
            listing = self._listings[folder] = frozenset(_names(folder))
        return listing

    # --- owners ---

    def owner(self, folder: Path, package: list[str]) -> Distribution:
        """Return the distribution that a package or module belongs to."""
        key = (folder, ".".join(package))
        if key not in self._found:
            self._found[key] = self._owner(folder, package)
        return self._found[key]

    def _owner(self, folder: Path, package: list[str]) -> Distribution:
        top = "/".join(package)
        claiming = self._claims(folder).get(package[0], [])
        if len(package) > 1 or len(claiming) > 1:
            start = top.encode("utf-8", "surrogateescape")
            exact = re.compile(rb"^\"?" + re.escape(start) + rb"[/.]", re.MULTILINE)
            claiming = [owner for owner in claiming if owner.record is not None and exact.search(owner.record)]
        if claiming:
            return claiming[0]
        named = self._by_name(folder, package[0])
        outside = folder not in self.environment.folders[:1] and not folder.name.endswith("-packages")
        if named is not None:
            return Distribution(named[0], named[1], folder, None, named[2], outside, top)
        return Distribution(top.replace("/", "."), "", folder, None, None, outside, top)

    def _claims(self, folder: Path) -> dict[str, list[Distribution]]:
        """Return the distributions of a folder that have a list of files, by the first parts of their paths."""
        owners = self._owners.get(folder)
        if owners is not None:
            return owners
        owners = self._owners[folder] = {}
        for name in sorted(self._listing(folder)):
            if not name.endswith(".dist-info"):
                continue
            try:
                record = _read(folder / name / "RECORD", _LARGEST_RECORD)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.remarks.append(
                    say("{path} cannot be read: {error}", path=folder / name / "RECORD", error=error.strerror)
                )
                continue
            title, version, problem = _metadata(folder / name)
            owner = Distribution(title, version, folder, record, problem)
            for first in set(_FIRST.findall(record)):
                text = first.decode("utf-8", "surrogateescape")
                if text not in ("..", "__pycache__"):
                    owners.setdefault(EXTENSION.sub("", text.removesuffix(".py")), []).append(owner)
        return owners

    def _by_name(self, folder: Path, top: str) -> tuple[str, str, Message | None] | None:
        """Return name, version and problem of metadata without a list of files that fit a package's name."""
        wanted = normalised(top)
        for name in sorted(self._listing(folder)):
            if name == "EGG-INFO" and folder.name.endswith(".egg"):
                return _metadata(folder / name)
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            stem = name.rpartition(".")[0].partition("-")[0]
            if normalised(stem) == wanted:
                return _metadata(folder / name)
        return None


_FIRST = re.compile(rb"^\"?([^/,\"\r\n]+)[/,]", re.MULTILINE)


def _read(path: Path, limit: int) -> bytes:
    """Read a file of metadata; a link is none.

    Raises:
        OSError: it cannot be read, or is too large.
    """
    if os.path.islink(path):
        raise OSError(0, say("is a link").render(), str(path))
    return read_regular(path, limit)


def _metadata(folder: Path) -> tuple[str, str, Message | None]:
    """Return name and version of a distribution, and what is wrong with its metadata.

    Only two lines are wanted: a parser of mail, which is what metadata are in form, would read all of a file that
    nobody vouches for.
    """
    stem = folder.name.rpartition(".")[0]
    name, _, version = stem.partition("-")
    for file in (folder / "METADATA", folder / "PKG-INFO", folder):
        try:
            head = _read(file, _LARGEST_METADATA).partition(b"\n\n")[0]
        except OSError:
            continue
        fields = {key.lower(): value.decode("utf-8", "replace").strip() for key, value in _FIELD.findall(head)}
        if fields.get(b"name") and fields.get(b"version"):
            return _shown(fields[b"name"]), _shown(fields[b"version"]), None
        problem = say("the metadata in {path} lack a name or a version", path=folder.name)
        return _shown(fields.get(b"name") or name), _shown(fields.get(b"version") or version), problem
    return _shown(name), _shown(version), say("the metadata in {path} cannot be read", path=folder.name)


def _shown(text: str) -> str:
    """Return a name or version as it may be shown: short, and nothing but what is printable."""
    return "".join(char for char in text[:120] if char.isprintable())
