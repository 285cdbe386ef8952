"""The files of a project that are handed over, those that are not and why, and which of them were changed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import LARGEST_SETTINGS, read_regular, read_text
from torchferry.core.folders import identity
from torchferry.core.messages import Message, say
from torchferry.core.progress import counted
from torchferry.core.record import NamedTuple
from torchferry.core.secrets import secret_name, secrets_of_file, shown_path
from torchferry.migration.journal import DONE, readable_journals
from torchferry.source.git import git, is_in_repository, repository_of, shared_commit, tracked_files
from torchferry.source.gitignore import Patterns, is_ignored, parse_gitignore
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
    """A file that is not handed over, and why.

    Attributes:
        path: The file, or a folder with all that is in it.
        reason: Why.
        line: The line that tells, from 1; 0 where none does.
        file: The file itself where its content is the reason: what the program needs must not be missing in silence.
        is_secret: Whether the reason is a secret.
    """

    path: str
    reason: Message
    line: int = 0
    file: ProjectFile | None = None
    is_secret: bool = False

    @property
    def place(self) -> str:
        """The file, and the line that tells; without tokens in names."""
        shown = shown_path(self.path)
        return f"{shown}:{self.line}" if self.line else shown


class ProjectFiles(NamedTuple):
    """The files of a project.

    Attributes:
        files: Those that are handed over, in order.
        left_out: Those that are not, those with secrets first.
        included: Those that are, although they would be left out: the user insists. One entry for each reason.
        idle: The patterns of the user that left nothing out.
    """

    files: tuple[ProjectFile, ...]
    left_out: tuple[LeftOut, ...]
    included: tuple[LeftOut, ...] = ()
    idle: tuple[str, ...] = ()

    @property
    def licences(self) -> tuple[str, ...]:
        """Licence files in the uppermost folder."""
        return tuple(
            file.path for file in self.files if "/" not in file.path and file.path.lower().startswith(_LICENCE)
        )

    @property
    def with_flagged(self) -> ProjectFiles:
        """These, with the files that are left out for their content: which program is meant does not depend on it."""
        flagged = tuple(left.file for left in self.left_out if left.file is not None)
        return self._replace(files=tuple(sorted({*self.files, *flagged}))) if flagged else self


def project_files(
    root: Path, exclude: tuple[str, ...] = (), skip: Iterable[Path] = (), include: tuple[str, ...] = ()
) -> ProjectFiles:
    """Return the files of a project that may leave the machine.

    In a checkout of git those are the files that git tracks, as they lie in the folder; outside of git all but those
    that `.gitignore` files name. Links are not followed, and folders of tools are no part of a project. A file with a
    secret is left out, as are data sets. What is left out is named, but for what is ignored.

    Args:
        root: The project's folder.
        exclude: Patterns of paths or names of files and folders that are left out; of a folder, all that is below it.
        skip: Folders in the project that are not looked into.
        include: Files, by their paths below the root, on which the user insists.

    Raises:
        UsageError: a file of `include` does not exist, or cannot be handed over.
        TorchferryError: a file cannot be read, there are too many, or git does not say which files it tracks.
    """
    files: list[ProjectFile] = []
    left_out: list[LeftOut] = []
    included: list[LeftOut] = []
    effective: set[str] = set()
    size = 0
    skipped = frozenset(map(identity, skip)) - {None}
    insisted = {_normal(root, path): path for path in include}
    unmet = dict(insisted)
    media = _folders_of_media(root, skipped)
    shared = shared_files(root)
    walked = _walk(root, shared, skipped, left_out, frozenset(insisted))
    for path, status in counted(say("reading files"), walked):
        is_included = unmet.pop(path, None) is not None
        fitting = fitting_folders(path, exclude)
        effective.update(fitting)
        if fitting and is_included:
            raise UsageError(
                say("{path} is named by --include and by --exclude", path=path), say("remove one of the two")
            )
        reasons = (
            [LeftOut(path, say("left out by --exclude"))] if fitting else list(_reasons(path, status, media, shared))
        )
        if reasons and not (is_included and status.st_size <= LARGEST_FILE):
            left_out += reasons[:1]
            if is_included:
                unmet[path] = path
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
        file = ProjectFile(path, data, stat.S_IMODE(status.st_mode) & 0o777)
        secrets = [
            LeftOut(path, secret.reason, secret.line, file, is_secret=True) for secret in secrets_of_file(path, data)
        ]
        if is_included:
            included += [*reasons, *secrets]
        elif secrets:
            left_out += secrets
            continue
        files.append(file)
    if unmet:
        raise _not_included(root, next(iter(unmet.values())), left_out)
    left_out.sort(key=lambda left: not left.is_secret)
    idle = tuple(pattern for pattern in exclude if pattern not in effective)
    return ProjectFiles(tuple(files), tuple(left_out), tuple(included), idle)


def _normal(root: Path, path: str) -> str:
    """Return a path of `--include` as one below the root; it may also be one below the current folder."""
    if os.path.lexists(root / path):
        named = os.path.normpath(root / path)
    else:
        named = os.path.abspath(path)
    return os.path.relpath(named, os.path.abspath(root) if os.path.isabs(named) else root).replace(os.sep, "/")


def _not_included(root: Path, path: str, left_out: Iterable[LeftOut]) -> UsageError:
    """Return the error for a file that the user insists on, and that cannot be handed over."""
    normal = _normal(root, path)
    reason = next((left.reason for left in left_out if f"{normal}/".startswith(f"{left.path}/")), None)
    if reason is not None:
        return UsageError(say("--include {path}: it cannot be handed over: {reason}", path=path, reason=reason))
    return UsageError(
        say("--include {path}: there is no such file in {root} that could be handed over", path=path, root=root),
        say("name one file, by its path from the project's folder; can be repeated"),
    )


class SharedFiles(NamedTuple):
    """Which files of a folder are for others, by git or by ignore files.

    Attributes:
        tracked: Files that git tracks; None outside of git.
        folders: The folders with such files.
        ignored: Files and folders that git ignores.
    """

    tracked: frozenset[str] | None = None
    folders: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()


def shared_files(root: Path) -> SharedFiles:
    """Return which files below a folder git tracks, those of checked out submodules among them.

    Raises:
        TorchferryError: the folder lies in a checkout, and git does not say.
    """
    if not is_in_repository(root):
        return SharedFiles()
    tracked = tracked_files(root)
    ignored = ignored_by_git(root)
    if tracked is None:
        raise TorchferryError(
            say("git cannot list the tracked files in {root}", root=root),
            say("check the output of `git -C {root} ls-files`", root=root),
        )
    if not tracked:
        if ignored is None:  # git ignores the folder as a whole, so it is no part of that checkout
            return SharedFiles()
        raise TorchferryError(
            say("git tracks no file in {root}, so nothing can be handed over", root=root),
            say("add the files of the project with `git add`; a commit is not needed"),
        )
    folders = {path[:at] for path in tracked for at, letter in enumerate(path) if letter == "/"}
    return SharedFiles(tracked, frozenset(folders), ignored or frozenset())


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
        raise UsageError(say("--commit: `{name}` is not a commit", name=commit))
    changed: set[str] = set()
    told = False
    if original is not None:
        told = True
        for file in project_files(root).with_flagged.files:
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
    root: Path,
    shared: SharedFiles | None,
    skipped: frozenset[tuple[int, int] | None],
    left_out: list[LeftOut],
    insisted: frozenset[str] = frozenset(),
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the regular files below a folder, in order; links, special files and untracked folders go to `left_out`."""
    todo: list[tuple[str, list[Patterns]]] = [("", [])]
    while todo:
        prefix, patterns = todo.pop()
        folder = os.path.join(root, prefix)
        try:
            with os.scandir(folder) as scan:
                items = sorted(scan, key=lambda item: item.name)
        except OSError as error:
            raise TorchferryError(say("cannot read {path}: {error}", path=folder, error=error.strerror)) from None
        if shared is not None and shared.tracked is None and any(item.name == ".gitignore" for item in items):
            patterns = [*patterns, *_gitignore(root, prefix)]
        inner: list[tuple[str, list[Patterns]]] = []
        for item in items:
            path = f"{prefix}/{item.name}" if prefix else item.name
            is_insisted = any(f"{one}/".startswith(f"{path}/") for one in insisted)
            if is_control_name(item.name) or item.name in NEVER_ENTERED:
                continue
            status = item.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(status.st_mode)
            if shared is not None and not is_insisted:
                is_tracked = shared.tracked is not None and (path in shared.tracked or path in shared.folders)
                if not is_tracked and (path in shared.ignored or is_ignored(path, is_folder, patterns)):
                    continue
            if stat.S_ISLNK(status.st_mode):
                left_out.append(LeftOut(path, say("a link, which is not followed")))
            elif is_folder and item.name in _FOREIGN:
                left_out.append(LeftOut(path, say("settings of the project's own repository")))
            elif is_folder:
                if (status.st_dev, status.st_ino) in skipped or os.path.exists(os.path.join(item.path, "pyvenv.cfg")):
                    continue
                is_untracked = shared is not None and shared.tracked is not None and path not in shared.folders
                if is_untracked and not is_insisted:
                    left_out.append(LeftOut(path, say("git does not track it")))
                elif not is_untracked or is_insisted:
                    inner.append((path, patterns))
            elif stat.S_ISREG(status.st_mode):
                yield path, status
            else:
                left_out.append(LeftOut(path, say("not a regular file")))
        todo += reversed(inner)


def _gitignore(root: Path, prefix: str) -> list[Patterns]:
    path = root / prefix / ".gitignore"
    try:
        return parse_gitignore(read_text(path, LARGEST_SETTINGS, "replace"), prefix)
    except OSError as error:
        raise TorchferryError(
            say("cannot read {path}: {error}", path=path, error=error.strerror or error),
            say("make the file readable: it decides which files are handed over"),
        ) from None


def _folders_of_media(root: Path, skipped: frozenset[tuple[int, int] | None]) -> frozenset[str]:
    counts: dict[str, int] = {}
    for path, _ in _walk(root, None, skipped, []):
        if path.lower().endswith(_MEDIA):
            folder = path.rpartition("/")[0]
            counts[folder] = counts.get(folder, 0) + 1
    return frozenset(folder for folder, count in counts.items() if count > _MOST_MEDIA)


def fitting_folders(path: str, patterns: tuple[str, ...]) -> set[str]:
    """Return the patterns that fit a file or a folder above it, and so leave it out."""
    parts = path.split("/")
    places = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return {pattern for place in places for pattern in fitting_patterns(place, patterns)}


def _reasons(path: str, status: os.stat_result, media: frozenset[str], shared: SharedFiles) -> Iterator[LeftOut]:
    """Yield why a file that nobody excluded is left out, but for secrets in it; nothing for one that is handed over."""
    named = secret_name(path)
    if shared.tracked is not None and path not in shared.tracked:
        yield LeftOut(path, say("git does not track it") if named is None else named, is_secret=named is not None)
    if status.st_size > LARGEST_FILE:
        yield LeftOut(path, say("larger than 100 MiB: {size} MiB", size=-(-status.st_size >> 20)))
    if is_data(path) or path.rpartition("/")[0] in media:
        yield LeftOut(path, say("a data set or weights, which are not handed over"))


def is_data(path: str) -> bool:
    """Whether a file is part of a data set or holds weights, by its name."""
    if path.lower().endswith(DATA_SUFFIXES):
        return True
    *folders, name = path.lower().split("/")
    return bool(_DATA_FOLDERS.intersection(folders)) and kind_of(name) is None and not name.endswith((".txt", ".rst"))
