"""The journal of a migration: what every file was, so that every byte can be put back.

`<root>/.torchferry/journal/0001/` holds `manifest.json`, `before.bin` (the old contents, one behind the other) and,
until they are moved into place, the new contents in `after/`, or the old ones in `old/`. The folder appears under its
name only when all of it is on the disk; from then on the migration can be finished or taken back, whatever happens.

A tree may bring such folders along. So nothing below `.torchferry` is reached by a link, nothing is removed there that
has no name of ours, and a journal is acted on only where it is known to be made here by this user (`signing.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.core.recorded_decisions import FILE as DECISIONS
from torchferry.migration.directory import Directory, WrongKindError
from torchferry.migration.durable import Durable
from torchferry.migration.signing import Signer, signer
from torchferry.source.git import git, is_in_repository
from torchferry.source.tree import is_control_name

FOLDER = ".torchferry"
SCHEMA = 1

APPLYING = "applying"
DONE = "done"
UNDOING = "undoing"

_JOURNALS = "journal"
_MANIFEST = "manifest.json"
_NEW_MANIFEST = "manifest.json.new"
_BEFORE = "before.bin"
_NUMBER = lazy_regex(r"[0-9]{4,18}\Z")
_LEFT_OVER = lazy_regex(r"(?:new(?:-[0-9a-f]{32})?|[0-9]{4,18}\.gone)\Z")
"""Folders of runs that ended before their journal was complete, or while it was being removed."""

_OWN_FILES = (_MANIFEST, _NEW_MANIFEST, _BEFORE, "old")
_OWN_FOLDERS = ("after", "old")
_CONTENT = lazy_regex(r"[0-9]{6,}\Z")
"""Names of files in these folders: the place of the file in the list of changes."""

_DIGEST = lazy_regex(r"[0-9a-f]{64}\Z")
_ID = lazy_regex(r"[0-9a-f]{32}\Z")

LARGEST_MANIFEST = 1 << 26
"""Bytes: the changes of more than 200,000 files. A larger manifest is neither written nor read."""

_LARGEST_NUMBER = 1 << 62


class Change(NamedTuple):
    """One file of a migration.

    Attributes:
        path: Path relative to the root, with `/`.
        before: SHA-256 of the old content; None for a file that the migration makes.
        after: SHA-256 of the new content.
        offset: Where the old content is in `before.bin`.
        size: Its length in bytes.
        mode: Permission bits of the file.
        mtime_ns: When the old file was last modified.
    """

    path: str
    before: str | None
    after: str
    offset: int
    size: int
    mode: int
    mtime_ns: int


def suffixed(path: str, suffix: str) -> str:
    """Return the path of the new version of a file: the suffix goes before the last dot of its name."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    return f"{folder}{slash}{stem}{suffix}{dot}{ending}"


class Journal(NamedTuple):
    """A migration as the journal has it.

    Attributes:
        folder: Its folder.
        state: `applying`, `done` or `undoing`.
        target: The target, as `NAME` or `NAME@VERSION`.
        torchferry: The version that wrote it.
        created: When, in ISO 8601 with time zone.
        changes: The files.
        id: A random number, in hexadecimal, by which temporary files in the tree are named.
        folders: Folders that the migration made, an outer one before what it holds.
        problem: Why it is not known to be made here by this user; None where it is.
        suffix: What the names of new files end with, beside their originals; empty where it wrote into the originals.
        source: The folder that a port was made from, relative to the root; empty where it wrote into the originals.
        made_root: Whether it made the root itself, which goes again with the last file in it.
    """

    folder: Path
    state: str
    target: str
    torchferry: str
    created: str
    changes: tuple[Change, ...]
    id: str
    problem: Message | None = None
    folders: tuple[str, ...] = ()
    suffix: str = ""
    source: str = ""
    made_root: bool = False

    @property
    def number(self) -> str:
        """The journal's number, which is its folder's name."""
        return self.folder.name

    @property
    def is_known(self) -> bool:
        """Whether it was made here by this user."""
        return self.problem is None

    @property
    def is_decision(self) -> bool:
        """Whether it has nothing but a decision (`torchferry decide`): no code was changed."""
        return all(change.path == DECISIONS for change in self.changes)

    def touches(self, root: Path, path: Path) -> bool:
        """Whether it changed a path or something below it, or made a port or a new version of that.

        Args:
            root: The real path of its tree.
            path: A real path.
        """
        if self.source and Path(os.path.normpath(root / self.source)).is_relative_to(path):
            return True
        if self.suffix and path.is_relative_to(root):
            new = suffixed(path.relative_to(root).as_posix(), self.suffix)
            if any(change.path == new for change in self.changes):
                return True
        return any((root / change.path).is_relative_to(path) for change in self.changes)

    def before(self, folder: Directory, change: Change) -> bytes:
        """Return the old content of a file, from the journal's open folder.

        Raises:
            TorchferryError: the journal is damaged.
        """
        data = b""
        with contextlib.suppress(FileNotFoundError), os.fdopen(own_file(folder, _BEFORE), "rb") as file:
            if change.offset + change.size <= os.fstat(file.fileno()).st_size:
                file.seek(change.offset)
                data = file.read(change.size)
        if digest(data) != change.before:
            raise TorchferryError(
                say(
                    "journal {number} is damaged: the saved content of {path} has changed",
                    number=self.number,
                    path=change.path,
                ),
                say("restore the files another way, such as from git, then remove {folder}", folder=self.folder),
            )
        return data

    def with_state(self, folder: Directory, state: str, signing: Signer) -> Journal:
        """Write a new state to the disk and return the journal with it."""
        changed = self._replace(state=state)
        write_manifest(folder, changed.manifest(signing))
        return changed

    def manifest(self, signing: Signer) -> bytes:
        """Return the manifest as it is in the file."""
        document = {
            "schema": SCHEMA,
            "state": self.state,
            "target": self.target,
            "torchferry": self.torchferry,
            "created": self.created,
            "id": self.id,
            "changes": [change._asdict() for change in self.changes],
            **({"folders": list(self.folders)} if self.folders else {}),
            **({"suffix": self.suffix} if self.suffix else {}),
            **({"source": self.source} if self.source else {}),
            **({"made_root": True} if self.made_root else {}),
        }
        return json.dumps({**document, "signatures": signing.signatures(document)}).encode()


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    import hashlib  # imported late: a first migration asks for it while files are examined

    return hashlib.sha256(data).hexdigest()


def content_digest(top: Directory, path: str) -> str | None:
    """Return the SHA-256 of a file of the tree: None where there is none, empty for what is no regular file.

    Raises:
        WrongKindError: a folder on the way is a link, or the file is one.
    """
    try:
        with top.parent(path) as parent:
            name = path.rpartition("/")[2]
            if parent.is_link(name):
                raise WrongKindError(parent.path / name)
            try:
                return parent.digest(name)
            except WrongKindError:
                return ""
    except FileNotFoundError:
        return None


def end(folder: Directory, journal: Journal) -> Journal:
    """Give a journal the state `done`, by the manifest that was written ahead."""
    folder.replace(_NEW_MANIFEST, folder, _MANIFEST)
    folder.sync()
    return journal._replace(state=DONE)


def write_first_manifests(folder: Directory, journal: Journal, data: bytes, signing: Signer, durable: Durable) -> None:
    """Write the manifest of a journal that has no number yet, and the one of the state `done` beside it.

    The end of the migration then needs no room on the disk.

    Args:
        folder: The folder that becomes the journal's.
        journal: The journal.
        data: Its manifest.
        signing: What signs the other one.
        durable: Makes both durable.
    """
    folder.create(_MANIFEST, data, durable=durable)
    folder.create(_NEW_MANIFEST, journal._replace(state=DONE).manifest(signing), durable=durable)


def write_manifest(folder: Directory, data: bytes) -> None:
    """Replace a journal's manifest so that after a power cut it is the old or the new one, never a part."""
    folder.remove(_NEW_MANIFEST)
    folder.create(_NEW_MANIFEST, data)
    folder.replace(_NEW_MANIFEST, folder, _MANIFEST)
    folder.sync()


def own_folder(place: Directory, name: str) -> Directory:
    """Open `.torchferry` or a folder below it.

    Raises:
        TorchferryError: it is a link or no folder, or it holds a link, so what it holds cannot be trusted.
        FileNotFoundError: there is none.
    """
    try:
        opened = place.folder(name)
    except WrongKindError as error:
        raise _not_ours(error) from None
    for inner in opened.names():
        if opened.is_link(inner):
            opened.close()
            raise _not_ours(WrongKindError(opened.path / inner))
    return opened


def own_file(place: Directory, name: str) -> int:
    """Open a file below `.torchferry` for reading; raises what `own_folder` does."""
    try:
        return place.open_file(name)
    except WrongKindError as error:
        raise _not_ours(error) from None


def _not_ours(error: WrongKindError) -> TorchferryError:
    return TorchferryError(
        say("`{path}` was not made by torchferry: it is a link, or the wrong kind of file", path=error.filename),
        say("move it away and try again"),
    )


def control_folder(top: Directory) -> Directory:
    """Open `.torchferry` of a tree for writing; it and what it holds are made where they are missing.

    Raises:
        TorchferryError: it is a link or no folder, or it cannot be made.
    """
    try:
        with contextlib.suppress(FileExistsError):  # another run may be making it at this moment
            top.make_folder(FOLDER)
        control = own_folder(top, FOLDER)
        try:
            _hide_from_git(control)
            with contextlib.suppress(FileExistsError):
                control.make_folder(_JOURNALS)
        except FileNotFoundError:  # another run has just removed it, empty
            pass
        except BaseException:
            control.close()
            raise
        return control
    except OSError as error:
        raise TorchferryError(
            say("cannot write in {root}: {error}", root=top.path, error=error.strerror),
            say("use `--out DIR` to write a copy elsewhere"),
        ) from None


_IGNORED = b"*\n"


def _hide_from_git(control: Directory) -> None:
    """Write `.gitignore`, also over one that a killed run left unfinished."""
    with contextlib.suppress(OSError):
        if control.read(".gitignore", len(_IGNORED)) in (b"", _IGNORED[:1]):
            control.remove(".gitignore")
    with contextlib.suppress(FileExistsError):
        control.create(".gitignore", _IGNORED)


def remove_control_folder(top: Directory, control: Directory) -> None:
    """Remove `.torchferry` where it holds no journal; what torchferry did not make there stays."""
    if not control.remove_folder(_JOURNALS) or set(control.names()) - {"lock", ".gitignore"}:
        return
    with contextlib.suppress(OSError):
        if _IGNORED.startswith(control.read(".gitignore", len(_IGNORED) + 1)):
            control.remove(".gitignore")
    with contextlib.suppress(OSError):
        control.remove("lock")
    top.remove_folder(FOLDER)


@contextmanager
def opened_journals(top: Directory) -> Iterator[Directory | None]:
    """Open the folder of the journals for reading; yields None where there is none.

    Raises:
        TorchferryError: it is reached by a link.
    """
    with contextlib.ExitStack() as stack:
        place = None
        with contextlib.suppress(FileNotFoundError):
            control = stack.enter_context(own_folder(top, FOLDER))
            place = stack.enter_context(own_folder(control, _JOURNALS))
        yield place


def journals(root: Path) -> list[Journal]:
    """Return the journals of a tree, oldest first, also those that are not known to be made here by this user.

    Raises:
        TorchferryError: a manifest cannot be read, or names a path that no migration writes.
    """
    try:
        with Directory.open(root) as top, opened_journals(top) as place:
            return [] if place is None else read_journals(root, top, place)
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=error.filename, error=error.strerror)) from None


def known_journals(root: Path) -> list[Journal]:
    """Return the journals that were made here by this user, oldest first."""
    return [journal for journal in journals(root) if journal.is_known]


def first_contents(root: Path, wanted: Iterable[Journal]) -> dict[str, tuple[bytes, str]]:
    """Return for each file that migrations changed what it was before the first of them, and the SHA-256 that it left.

    Args:
        root: The tree.
        wanted: Some of its journals, oldest first.

    Raises:
        TorchferryError: a journal is damaged.
    """
    contents: dict[str, tuple[bytes, str]] = {}
    with Directory.open(root) as top, opened_journals(top) as place:
        if place is None:
            return contents
        for journal in wanted:
            with own_folder(place, journal.number) as folder:
                for change in journal.changes:
                    if change.before is not None and change.path not in contents:
                        contents[change.path] = journal.before(folder, change), change.after
    return contents


def readable_journals(root: Path) -> list[Journal]:
    """Return the same for who only wants to know more of a tree: none where they cannot be read."""
    try:
        return known_journals(root)
    except TorchferryError:
        return []


def read_journals(root: Path, top: Directory, place: Directory, tracked: bool | None = None) -> list[Journal]:
    """Return the journals in an open folder; raises what `journals` does.

    Args:
        root: The tree.
        top: The tree, open.
        place: The folder of its journals, open.
        tracked: Whether git tracks something in it, where that is known.
    """
    numbers = [name for name in place.names() if _NUMBER.match(name)]
    if not numbers:
        return []
    signing = signer(root, top)
    tracked = is_tracked(root) if tracked is None else tracked
    return [_read(place, number, signing, tracked) for number in sorted(numbers, key=int)]


def is_tracked(root: Path) -> bool:
    """Whether git tracks something in the tree's `.torchferry`: then it came with the repository."""
    return is_in_repository(root) and bool(git(root, "ls-files", "-z", "--", f":(icase){FOLDER}"))


def next_number(place: Directory) -> str:
    """Return the number of the next journal."""
    numbers = [int(name) for name in place.names() if _NUMBER.match(name)]
    return f"{max(numbers, default=0) + 1:04}"


def left_over(place: Directory) -> list[str]:
    """Return the folders of runs that ended before their journal was complete, or while it was being removed."""
    return [name for name in place.names() if _LEFT_OVER.match(name)]


def _read(place: Directory, number: str, signing: Signer, tracked: bool) -> Journal:
    with own_folder(place, number) as folder:
        try:
            journal = _parsed(folder, signing)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {str(error)[:200]}"
            raise TorchferryError(
                say("journal {number} cannot be read: {error}", number=number, error=reason),
                say(
                    "its old contents are in {path}; if it is not yours, remove {folder}",
                    path=folder.path / _BEFORE,
                    folder=folder.path,
                ),
            ) from None
    if tracked:
        return journal._replace(problem=say("git tracks it, so it came with the repository"))
    return journal


def _parsed(folder: Directory, signing: Signer) -> Journal:
    """Read a manifest.

    Raises:
        TorchferryError: another version wrote it, it is too large, or it names a path that no migration writes.
        ValueError: it is no manifest; and KeyError, TypeError, RecursionError.
    """
    number = folder.path.name
    with os.fdopen(own_file(folder, _MANIFEST), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_MANIFEST:
            raise ValueError(f"{size} bytes")
        document: dict[str, Any] = parsed_json(file.read(LARGEST_MANIFEST))
    if document["schema"] != SCHEMA:
        raise TorchferryError(
            say("journal {number} was written by torchferry {version}", number=number, version=document["torchferry"]),
            say("undo it with that version"),
        )
    given = document.pop("signatures", None)
    texts = [document[name] for name in ("state", "target", "torchferry", "created")]
    identity = document.get("id", digest(json.dumps(document, sort_keys=True).encode())[:32])
    if not all(isinstance(text, str) for text in texts) or texts[0] not in (APPLYING, DONE, UNDOING):
        raise ValueError("state, target, version and date must be texts")
    if not isinstance(identity, str) or not _ID.match(identity):
        raise ValueError("id must be a number in hexadecimal")
    changes = tuple(_change(number, entry) for entry in document["changes"])
    if len({change.path for change in changes}) != len(changes):
        raise ValueError("a path stands in it twice")
    folders = document.get("folders", [])
    for name in folders:
        if not isinstance(name, str):
            raise ValueError("a folder must be a text")
        refuse_path(name, say("journal {number}", number=number))
    suffix, source, made_root = document.get("suffix", ""), document.get("source", ""), document.get("made_root", False)
    if not isinstance(suffix, str) or not isinstance(source, str) or "\0" in source or not isinstance(made_root, bool):
        raise ValueError("the suffix and the source must be texts")
    state, target, version, created = texts
    problem = signing.problem(document, given)
    return Journal(
        *(folder.path, state, target, version, created, changes, identity, problem),
        *(tuple(folders), suffix, source, made_root),
    )


_NUMBERS = frozenset({"offset", "size", "mode", "mtime_ns"})
"""The attributes of a change that are numbers; the others are texts."""


def _change(number: str, entry: Any) -> Change:
    change = Change(**entry)
    for name, value in change._asdict().items():
        is_number = name in _NUMBERS
        fits = type(value) is (int if is_number else str) or (name == "before" and value is None)
        if not fits or (is_number and not 0 <= value <= _LARGEST_NUMBER and name != "mtime_ns"):
            raise ValueError(f"`{name}` is {value!r:.40}")
    if abs(change.mtime_ns) > _LARGEST_NUMBER or not _DIGEST.match(change.after):
        raise ValueError("a time or a digest is none")
    if change.before is not None and not _DIGEST.match(change.before):
        raise ValueError("a digest is none")
    refuse_path(change.path, say("journal {number}", number=number))
    return change


def refuse_path(path: str, source: Message) -> None:
    """Refuse a path that no migration writes.

    Raises:
        TorchferryError: it leads out of the tree, or into the folder of a version control system or of torchferry.
    """
    parts = path.split("/")
    if path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise TorchferryError(say("{source} names a path outside the tree: {path}", source=source, path=repr(path)))
    if any(is_control_name(part) for part in parts):
        raise TorchferryError(
            say(
                "{source} names {path}, which belongs to a version control system or to torchferry",
                source=source,
                path=repr(path),
            )
        )
    os.fsencode(path)


def remove_journal(place: Directory, name: str) -> None:
    """Remove a journal's folder with what a journal consists of; anything else in it stays, and the folder with it.

    Raises:
        TorchferryError: the folder, or one in it, is a link.
    """
    with own_folder(place, name) as folder:
        for inner in _OWN_FOLDERS:
            remove_contents(folder, inner)
        for file in _OWN_FILES:
            with contextlib.suppress(IsADirectoryError, PermissionError):  # how Linux and macOS refuse a folder
                folder.remove(file)
    place.remove_folder(name)


def remove_contents(folder: Directory, name: str) -> None:
    """Remove a folder of contents (`after` or `old`) in a journal's; one that is missing is no error."""
    try:
        inner = folder.folder(name)
    except FileNotFoundError:
        return
    except WrongKindError as error:
        if not stat.S_ISREG(folder.status(name).st_mode):  # earlier versions had a file of the name `old`
            raise _not_ours(error) from None
        return
    with inner:
        for file in inner.names():
            if _CONTENT.match(file):
                inner.remove(file)
    folder.remove_folder(name)


def discard(place: Directory, journal: Journal) -> None:
    """Remove a journal that is not needed any more; half removed, it is not taken for one."""
    gone = f"{journal.number}.gone"
    place.replace(journal.number, place, gone)
    place.sync()
    remove_journal(place, gone)
