"""The files of a project that are handed over, those that are not and why, and which of them were changed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_regular
from torchferry.core.folders import identity
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.migration.journal import DONE, readable_journals
from torchferry.source.git import git, is_in_repository, repository_of, shared_commit
from torchferry.source.kinds import kind_of
from torchferry.source.tree import NEVER_ENTERED, fitting_patterns, ignored_by_git, is_control_name

LARGEST_FILE = 100 << 20
"""Bytes: GitHub refuses larger files, and the rules of the zoos name the same limit."""

DATA_SUFFIXES = (
    ".arrow", ".bin", ".ckpt", ".h5", ".hdf5", ".lmdb", ".mat", ".mdb", ".npy", ".npz", ".onnx", ".parquet", ".pickle",
    ".pkl", ".pt", ".pth", ".rec", ".safetensors", ".tar", ".tar.gz", ".tfrecord", ".tgz", ".zip",
)  # fmt: skip
"""Files that are data sets or weights."""

_MEDIA = (".avi", ".bmp", ".flac", ".gif", ".jpeg", ".jpg", ".mp3", ".mp4", ".png", ".tif", ".tiff", ".wav", ".webp")
_DATA_FOLDERS = frozenset({"data", "dataset", "datasets", "imagenet", "coco"})
_MOST_MEDIA = 100
"""Pictures or sounds in one folder; with more it is a data set."""

_FOREIGN = frozenset({".circleci", ".github", ".gitlab", ".idea", ".vscode"})
"""Folders with settings of forges and editors, which mean something in the project's own repository alone."""

_MOST_FILES = 20_000
_MOST_BYTES = 1 << 30
"""Bytes of a project, all of which are held at once."""

_COMMIT = re.compile(r"\w[\w./@^~+-]*\Z")

_LICENCE = ("license", "licence", "copying")


class ProjectFile(NamedTuple):
    """A file that is handed over: its path with `/`, its bytes and its permission bits."""

    path: str
    data: bytes
    mode: int


class LeftOut(NamedTuple):
    """A file that is not handed over, and why."""

    path: str
    reason: Message


class ProjectFiles(NamedTuple):
    """The files of a project.

    Attributes:
        files: Those that are handed over, in order.
        left_out: Those that are not.
        idle: The patterns of the user that left nothing out.
    """

    files: tuple[ProjectFile, ...]
    left_out: tuple[LeftOut, ...]
    idle: tuple[str, ...] = ()

    @property
    def licences(self) -> tuple[str, ...]:
        """Licence files in the uppermost folder."""
        return tuple(
            file.path for file in self.files if "/" not in file.path and file.path.lower().startswith(_LICENCE)
        )


def project_files(root: Path, exclude: tuple[str, ...] = (), skip: Iterable[Path] = ()) -> ProjectFiles:
    """Return the files of a project.

    Links are not followed. Files that git ignores, and folders of tools, are no part of the project; what is left out
    for another reason is named.

    Args:
        root: The project's folder.
        exclude: Patterns of paths or names of files and folders that are left out; of a folder, all that is below it.
        skip: Folders in the project that are not looked into.

    Raises:
        TorchferryError: a file cannot be read, or there are too many.
    """
    files: list[ProjectFile] = []
    left_out: list[LeftOut] = []
    effective: set[str] = set()
    size = 0
    skipped = frozenset(map(identity, skip)) - {None}
    media = _folders_of_media(root, skipped)
    for path, status in _walk(root, ignored_by_git(root), skipped, left_out):
        fitting = _fitting(path, exclude)
        effective.update(fitting)
        reason = say("left out by --exclude") if fitting else _reason(path, status, media)
        if reason is not None:
            left_out.append(LeftOut(path, reason))
            continue
        size += status.st_size
        if size > _MOST_BYTES:
            raise TorchferryError(
                say("the files of {root} have more than {size} MiB together", root=root, size=_MOST_BYTES >> 20),
                say("leave out what does not belong to the model with --exclude"),
            )
        if len(files) >= _MOST_FILES:
            raise TorchferryError(
                say("too many files in {root}: more than {count}", root=root, count=_MOST_FILES),
                say("leave out what does not belong to the model with --exclude"),
            )
        try:
            data = read_regular(root / path, LARGEST_FILE)
        except OSError as error:
            raise TorchferryError(
                say("cannot read {path}: {error}", path=root / path, error=error.strerror or error)
            ) from None
        files.append(ProjectFile(path, data, stat.S_IMODE(status.st_mode) & 0o777))
    idle = tuple(pattern for pattern in exclude if pattern not in effective)
    return ProjectFiles(tuple(files), tuple(left_out), idle)


def changed_files(root: Path, original: Path | None, commit: str) -> frozenset[str] | None:
    """Return the files of a project that differ from what others published; None where nothing tells.

    Args:
        root: The project's folder.
        original: A folder with the published files; None for none.
        commit: The published commit, where the project is in git; empty for the one that is checked out.

    Raises:
        UsageError: `commit` cannot be the name of one.
    """
    if commit and not _COMMIT.match(commit):
        raise UsageError(say("`{name}` is no commit", name=commit))
    changed: set[str] = set()
    told = False
    if original is not None:
        told = True
        for file in project_files(root).files:
            try:
                same = read_regular(original / file.path, LARGEST_FILE) == file.data
            except OSError:
                same = False
            if not same:
                changed.add(file.path)
    for journal in readable_journals(root):
        if journal.state == DONE:
            told = True
            changed |= {change.path for change in journal.changes}
    if original is None and is_in_repository(root):
        shown = git(root, "diff", "--name-only", "--relative", "-z", commit or "HEAD", "--", ".", reads_contents=True)
        if shown is not None:
            told = True
            changed |= {path for path in shown.split("\0") if path}
    return frozenset(changed) if told else None


def git_source(root: Path) -> tuple[str, str]:
    """Return the address and the commit of a project in git, without a name or password in the address."""
    top = repository_of(root)
    if top is None or top.resolve() != root.resolve():
        return "", ""
    url = (git(root, "config", "--get", "remote.origin.url") or "").strip()
    return without_secrets(url), shared_commit(root)


def without_secrets(url: str) -> str:
    """Return a web address without user name and password; empty for what is no address on the web."""
    scheme, mark, rest = url.partition("://")
    if scheme not in ("http", "https") or not mark:
        return ""
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def _walk(
    root: Path, ignored: frozenset[str] | None, skipped: frozenset[tuple[int, int] | None], left_out: list[LeftOut]
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the regular files below a folder, in order; links and special files go to `left_out`."""
    todo = [""]
    while todo:
        prefix = todo.pop()
        folder = os.path.join(root, prefix)
        try:
            with os.scandir(folder) as scan:
                items = sorted(scan, key=lambda item: item.name)
        except OSError as error:
            raise TorchferryError(say("cannot read {path}: {error}", path=folder, error=error.strerror)) from None
        inner: list[str] = []
        for item in items:
            path = f"{prefix}/{item.name}" if prefix else item.name
            if is_control_name(item.name) or item.name in NEVER_ENTERED or (ignored is not None and path in ignored):
                continue
            status = item.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                left_out.append(LeftOut(path, say("a link, which is not followed")))
            elif stat.S_ISDIR(status.st_mode) and item.name in _FOREIGN:
                left_out.append(LeftOut(path, say("settings of the project's own repository")))
            elif stat.S_ISDIR(status.st_mode):
                if (status.st_dev, status.st_ino) not in skipped and not os.path.exists(
                    os.path.join(item.path, "pyvenv.cfg")
                ):
                    inner.append(path)
            elif stat.S_ISREG(status.st_mode):
                yield path, status
            else:
                left_out.append(LeftOut(path, say("no regular file")))
        todo += reversed(inner)


def _folders_of_media(root: Path, skipped: frozenset[tuple[int, int] | None]) -> frozenset[str]:
    counts: dict[str, int] = {}
    for path, _ in _walk(root, None, skipped, []):
        if path.lower().endswith(_MEDIA):
            folder = path.rpartition("/")[0]
            counts[folder] = counts.get(folder, 0) + 1
    return frozenset(folder for folder, count in counts.items() if count > _MOST_MEDIA)


def _fitting(path: str, patterns: tuple[str, ...]) -> set[str]:
    """Return the patterns that fit a file or a folder above it."""
    parts = path.split("/")
    places = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return {pattern for place in places for pattern in fitting_patterns(place, patterns)}


def _reason(path: str, status: os.stat_result, media: frozenset[str]) -> Message | None:
    """Return why a file that nobody excluded is left out; None for one that is handed over."""
    if status.st_size > LARGEST_FILE:
        return say("larger than 100 MB: {size}", size=status.st_size)
    if is_data(path) or path.rpartition("/")[0] in media:
        return say("a data set or weights, which are not handed over")
    return None


def is_data(path: str) -> bool:
    """Whether a file is part of a data set or holds weights, by its name."""
    if path.lower().endswith(DATA_SUFFIXES):
        return True
    *folders, name = path.lower().split("/")
    return bool(_DATA_FOLDERS.intersection(folders)) and kind_of(name) is None and not name.endswith((".txt", ".rst"))
