"""Find the files of a project: nothing that git ignores, nothing behind links, nothing twice."""

from __future__ import annotations

import errno
import os
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from torchferry.core.abandoned import abandoned, is_ours
from torchferry.core.errors import TorchferryError
from torchferry.core.files import LARGEST_SETTINGS, read_head, read_text
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple
from torchferry.core.staging import is_staging_name
from torchferry.source.git import git, is_in_repository
from torchferry.source.gitignore import Patterns, is_ignored, parse_gitignore
from torchferry.source.kinds import HEADER_HEAD, SCRIPT_HEAD, Kind, is_bare_header, kind_of, language_of, script_kind

_MOST_BARE = 100_000
"""Files without a suffix that are asked whether they are scripts, which takes half a second; further ones are said."""

_MOST_UNASKED = 20
"""Folders with files that were not asked of which each is said by itself; of more, the one around them."""

NEVER_ENTERED = frozenset(
    {
        ".eggs",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".torchferry",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
        "site-packages",
        "venv",
    }
)
"""Folders that never belong to the project's own source."""

_BUILT = frozenset({"CMakeCache.txt", "meson-private"})
"""What the tools that build leave in the folder where they do."""

_BUILDING = frozenset({"CMakeLists.txt", "meson.build", "setup.py", "pyproject.toml"})
"""What says how a folder is built."""

_OTHERS = frozenset({".eggs", ".venv", "node_modules", "site-packages", "venv"})
"""Those of them that hold packages of others, which a program may import."""

_CONTROL_NAMES = frozenset({".bzr", ".git", ".hg", ".jj", ".pijul", ".sl", ".svn", ".torchferry", "_darcs", "git~1"})
"""Where version control systems and torchferry keep their own: what is there can start programs. `git~1` is
`.git` on file systems with short names."""


def is_control_name(name: str) -> bool:
    """Whether a name is, on any file system, that of a folder of a version control system or of torchferry.

    Some file systems do not tell small letters from capitals, and leave out what cannot be seen, and dots at the end.
    """
    if name.isascii():
        return name.casefold().rstrip(" .") in _CONTROL_NAMES
    seen = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", seen).casefold().rstrip(" .") in _CONTROL_NAMES


MOST_OTHERS = 5_000
"""Files of other languages that are remembered."""

MOST_IGNORED = 1_000
"""Files that a `.gitignore` hides that are named; a folder of data may hold millions."""


class Entry(NamedTuple):
    """A file that torchferry reads: its path relative to the root, with `/`, and what it is."""

    path: str
    kind: Kind


class Skipped(NamedTuple):
    """A file or folder that was not looked into, and why."""

    path: str
    reason: Message


class Listing(NamedTuple):
    """The files of a project, in order of their paths.

    Attributes:
        entries: The files that torchferry reads.
        skipped: What was not looked into.
        ignored: Files that it would read if a `.gitignore` file did not name them, in a tree that git does not know.
        excluded: Files that it would read if the user's patterns did not leave them out.
        left_alone: Folders with packages of others, which are never entered.
        others: Files of source in languages that it does not read.
        built: Folders that a build wrote, which are not entered unless they are named.
        unasked: Folders with files without a suffix of which nobody knows whether they are scripts.
        idle: The user's patterns that left nothing out, as they were given.
    """

    entries: list[Entry]
    skipped: list[Skipped]
    ignored: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    unasked: tuple[Skipped, ...] = ()
    idle: tuple[str, ...] = ()


def list_files(root: Path, exclude: tuple[str, ...] = (), only: tuple[str, ...] = ()) -> Listing:
    """List the files below `root` that torchferry reads.

    Args:
        root: The project's folder.
        exclude: Patterns (`fnmatch`) of relative paths or names to leave out; `folder/` and `./folder` mean `folder`.
        only: Relative paths of files or folders to look at, `.` for the root; empty for everything. What is named is
            read also where a `.gitignore` hides it.
    """
    with doing(say("listing files")):
        return _Walk(root, exclude, only).run()


class _Folder(NamedTuple):
    """A folder to enter: where it is, its path in the project, and the patterns of `.gitignore` above it."""

    place: str
    path: str
    patterns: list[Patterns]


class _Walk:
    def __init__(self, root: Path, exclude: tuple[str, ...], only: tuple[str, ...]) -> None:
        self.root = os.fspath(root)
        self.real_root = os.path.realpath(self.root)
        self.exclude = exclude
        self.effective: set[str] = set()
        self.only = only
        self.entries: list[Entry] = []
        self.skipped: list[Skipped] = []
        self.hidden: list[str] = []
        self.unwanted: list[str] = []
        self.left_alone: list[str] = []
        self.others: list[str] = []
        self.built: list[str] = []
        self.bare: list[str] = []
        self.ignored = ignored_by_git(root)

    def run(self) -> Listing:
        if self.only:
            for path in self.only:
                full = os.path.join(self.root, path)
                if os.path.isdir(full) and path != ".":
                    self._walk(full, path)
                elif path == ".":
                    self._walk(self.root, "")
                else:
                    self._file(path)
        else:
            self._walk(self.root, "")
        unasked = self._add_bare()
        self.entries = sorted(set(self.entries))
        read = {entry.path for entry in self.entries}
        self.hidden = [path for path in self.hidden if path not in read]
        ignored, excluded, left_alone, others, built = (
            tuple(sorted(set(names)))
            for names in (self.hidden, self.unwanted, self.left_alone, self.others, self.built)
        )
        idle = tuple(pattern for pattern in self.exclude if pattern not in self.effective)
        return Listing(self.entries, self.skipped, ignored, excluded, left_alone, others, built, tuple(unasked), idle)

    def _walk(self, folder: str, prefix: str) -> None:
        """Enter a folder and those below it, in order; without recursion, since they can be nested deeply."""
        entered = [self._enter(_Folder(folder, prefix, []), is_named=True)]
        while entered:
            deeper = next(entered[-1], None)
            if deeper is None:
                entered.pop()
            else:
                entered.append(self._enter(deeper))

    def _enter(self, place: _Folder, *, is_named: bool = False) -> Iterator[_Folder]:
        """Take the files of a folder; yield the folders in it, each when it is to be entered."""
        folder, prefix, patterns = place
        try:
            with os.scandir(folder) as scan:
                items = sorted(scan, key=lambda item: item.name)
        except OSError as error:
            self.skipped.append(Skipped(prefix or ".", say("cannot be read: {error}", error=error.strerror)))
            return
        if not is_named and is_build_output(prefix, {item.name for item in items}):
            self.built.append(prefix)
            return
        if self.ignored is None and any(item.name == ".gitignore" for item in items):
            patterns = patterns + self._gitignore(folder, prefix)
        for item in items:
            path = f"{prefix}/{item.name}" if prefix else item.name
            try:
                link = item.is_symlink()
                is_folder = item.is_dir(follow_symlinks=False)
            except OSError as error:
                self.skipped.append(Skipped(path, say("cannot be read: {error}", error=error.strerror)))
                continue
            if self._excluded(path):
                if not link:
                    self._hide(item, path, is_folder, self.unwanted)
                continue
            if self._is_ignored(path, is_folder, patterns):
                if self.ignored is None and not link:
                    self._hide(item, path, is_folder, self.hidden)
                continue
            if link:
                self._link(item.path, path)
            elif is_folder:
                if is_staging_name(item.name) and is_ours(item.path):
                    with abandoned(Path(item.path)) as left:
                        if left:  # else a run writes there at this moment
                            reason = say("left by a run that was killed; `torchferry undo` removes it")
                            self.skipped.append(Skipped(path, reason))
                elif item.name in _OTHERS or os.path.exists(os.path.join(item.path, "pyvenv.cfg")):
                    self.left_alone.append(path)
                elif not _is_left_alone(item.name):
                    yield _Folder(item.path, path, patterns)
            elif item.is_file(follow_symlinks=False):
                self._file(path)

    def _file(self, path: str) -> None:
        kind = kind_of(path)
        if kind is not None:
            self.entries.append(Entry(path, kind))
        elif "." not in path.rpartition("/")[2]:
            self.bare.append(path)
        elif language_of(path) and len(self.others) < MOST_OTHERS:
            self.others.append(path)

    def _add_bare(self) -> list[Skipped]:
        """Add the scripts without a suffix, and the C++ headers of a project that has other C++.

        Returns:
            Where files were not asked: there are too many, of which those of folders with few are asked first.
        """
        named = bool(self.only) and "." not in self.only
        has_native = named or any(entry.kind in (Kind.CPP, Kind.KERNEL, Kind.CMAKE) for entry in self.entries)
        waiting, limit = self.bare, len(self.bare)
        if limit > _MOST_BARE and not has_native:
            sizes = Counter(map(_folder_of, self.bare))
            waiting, limit = sorted(self.bare, key=lambda path: sizes[_folder_of(path)]), _MOST_BARE
        unreadable = []
        for path in waiting[:limit]:
            try:
                head = read_head(os.path.join(self.root, path), HEADER_HEAD if has_native else SCRIPT_HEAD)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EPERM, errno.EIO):  # else it is no file, or is gone
                    unreadable.append(path)
                continue
            if has_native and is_bare_header(path, head):
                self.entries.append(Entry(path, Kind.CPP))
            elif (kind := script_kind(head)) is not None:
                self.entries.append(Entry(path, kind))
        return [*_unreadable(unreadable), *_beyond(waiting[limit:])]

    def _link(self, full: str, path: str) -> None:
        """A link is not followed: what it points to is found by itself, or lies outside the root."""
        target = os.path.realpath(full)
        inside = target == self.real_root or target.startswith(self.real_root + os.sep)
        if not inside and (kind_of(path) is not None or os.path.isdir(full)):
            self.skipped.append(Skipped(path, say("a link that leaves the project; not followed")))

    def _excluded(self, path: str) -> bool:
        fitting = fitting_patterns(path, self.exclude)
        self.effective.update(fitting)
        return bool(fitting)

    def _hide(self, item: os.DirEntry[str], path: str, is_folder: bool, hidden: list[str]) -> None:
        """Remember the files that an entry hides, as far as they would be read: nobody else says so."""
        waiting = [(item, path, is_folder)]
        while waiting and len(hidden) < MOST_IGNORED:
            item, path, is_folder = waiting.pop()
            if not is_folder:
                if kind_of(path) is not None:
                    hidden.append(path)
                continue
            if item.name in NEVER_ENTERED or os.path.exists(os.path.join(item.path, "pyvenv.cfg")):
                continue
            try:
                with os.scandir(item.path) as scan:
                    inside = sorted(scan, key=lambda inner: inner.name, reverse=True)
                waiting += [
                    (inner, f"{path}/{inner.name}", inner.is_dir(follow_symlinks=False))
                    for inner in inside
                    if not inner.is_symlink()
                ]
            except OSError:
                hidden.append(path)

    def _is_ignored(self, path: str, is_folder: bool, patterns: list[Patterns]) -> bool:
        if self.ignored is not None:
            return path in self.ignored
        return is_ignored(path, is_folder, patterns)

    def _gitignore(self, folder: str, prefix: str) -> list[Patterns]:
        try:
            return parse_gitignore(read_text(Path(folder, ".gitignore"), LARGEST_SETTINGS, "replace"), prefix)
        except OSError as error:
            path = f"{prefix}/.gitignore" if prefix else ".gitignore"
            self.skipped.append(Skipped(path, say("cannot be read: {error}", error=error.strerror)))
            return []


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _unreadable(paths: Sequence[str]) -> Iterator[Skipped]:
    for place, count in _by_folder(paths):
        reason = say_plural(
            "{count} file without a suffix cannot be read; it may be a script",
            "{count} files without a suffix cannot be read; they may be scripts",
            count=count,
        )
        yield Skipped(place, reason)


def _beyond(paths: Sequence[str]) -> Iterator[Skipped]:
    for place, count in _by_folder(paths):
        reason = say_plural(
            "too many files without a suffix: {count} was not examined; it may be a script",
            "too many files without a suffix: {count} were not examined; they may be scripts",
            count=count,
        )
        yield Skipped(place, reason)


def _by_folder(paths: Sequence[str]) -> list[tuple[str, int]]:
    """Return how many of some files each folder holds; of very many folders, the one around them."""
    counts = Counter(map(_folder_of, paths))
    if len(counts) > _MOST_UNASKED:
        return [(("" if "" in counts else os.path.commonpath(counts)) or ".", len(paths))]
    return [(folder or ".", count) for folder, count in sorted(counts.items())]


def fitting_patterns(path: str, patterns: Iterable[str]) -> list[str]:
    """Return the patterns of `--exclude` that fit a path or its name; `folder/`, as shells complete it, is `folder`."""
    name = path.rpartition("/")[2]
    fitting = []
    for pattern in patterns:
        plain = pattern.removeprefix("./").rstrip("/")
        if fnmatchcase(path, plain) or fnmatchcase(name, plain):
            fitting.append(pattern)
    return fitting


def is_build_output(folder: str, names: Collection[str]) -> bool:
    """Whether a folder with files of these names is where CMake or Meson build, and holds no sources.

    What is written there speaks of CUDA as the machine has it. A folder in which sources and results lie together has
    the file that says how they are built, and belongs to the project.
    """
    if folder.rpartition("/")[2] == "CMakeFiles":
        return True
    return not _BUILT.isdisjoint(names) and _BUILDING.isdisjoint(names)


def _is_left_alone(name: str) -> bool:
    return name in NEVER_ENTERED or is_control_name(name)


def ignored_by_git(root: Path) -> frozenset[str] | None:
    """Return the paths below `root` that git ignores (folders whole), or None where git cannot say."""
    if not is_in_repository(root):
        return None
    try:
        shown = git(root, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    except TorchferryError:  # it does not end
        return None
    if shown is None:
        return None
    paths = shown.split("\0")
    if "./" in paths:  # the root itself is ignored, so git's rules are not about it
        return None
    return frozenset(path.rstrip("/") for path in paths if path)
