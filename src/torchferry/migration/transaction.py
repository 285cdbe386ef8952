"""Change many files as one: all of them or, after an interruption, none.

First everything is written beside the tree and made durable: the old contents, the new ones, the list. Then the new
files are moved into place, which needs no room on the disk. A run that ends in between, by a signal, a power cut or an
error, is taken back: at once where torchferry still runs, else by the next command in that tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from torchferry import __version__
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.migration.journal import (
    APPLYING,
    DONE,
    UNDOING,
    Change,
    Journal,
    control_folder,
    digest,
    discard,
    journals,
    sync_folder,
    write_durably,
)
from torchferry.migration.lock import locked


class Write(NamedTuple):
    """A file to be written.

    Attributes:
        path: Path relative to the root, with `/`.
        before: The content that the new one was made from; None for a file that must not exist yet.
        after: The new content.
        mode: Permission bits for a new file; an existing one keeps its own.
    """

    path: str
    before: bytes | None
    after: bytes
    mode: int = 0o644


class ConflictError(TorchferryError):
    """Files are not what they should be; `paths` names them."""

    def __init__(self, paths: list[str]) -> None:
        names = ", ".join(paths[:5]) + (f" (+{len(paths) - 5})" if len(paths) > 5 else "")
        super().__init__(
            say("{count} files have changed since: {names}", count=len(paths), names=names),
            say("save those changes elsewhere and restore the files, then try again; nothing was touched"),
        )
        self.paths = paths


@contextmanager
def exclusive(root: Path) -> Iterator[list[Journal]]:
    """Hold the tree for writing; yields the journals of interrupted runs, which were taken back first."""
    control = control_folder(root, create=True)
    assert control is not None
    with locked(control):
        yield recover(root)


def interrupted(root: Path) -> list[Journal]:
    """Return the journals of runs that were interrupted."""
    return [journal for journal in journals(root) if journal.state != DONE]


def recover(root: Path) -> list[Journal]:
    """Take back what interrupted runs have done so far, and return their journals.

    Raises:
        ConflictError: a file was changed by somebody else since; nothing was touched.
    """
    taken_back = interrupted(root)
    for journal in reversed(taken_back):
        _restore(root, journal)
    folder = root / ".torchferry" / "journal"
    if folder.is_dir():
        for leftover in folder.iterdir():  # of a run that ended before its journal was complete
            if not leftover.name.isdigit():
                shutil.rmtree(leftover, ignore_errors=True)
    return taken_back


def apply(root: Path, writes: Iterable[Write], target: str) -> Journal:
    """Write files as one transaction and return its journal. The tree must be held (`exclusive`).

    Raises:
        ConflictError: a file is not what the new content was made from; nothing was touched.
        TorchferryError: the disk is full or a file may not be written; everything was taken back.
    """
    planned = list(writes)
    changed = [write.path for write in planned if _current(root, write.path) != write.before]
    if changed:
        raise ConflictError(changed)
    try:
        journal = _prepare(root, planned, target)
    except OSError as error:
        shutil.rmtree(root / ".torchferry" / "journal" / "new", ignore_errors=True)
        raise TorchferryError(
            say("cannot write the journal: {error}; nothing was touched", error=error.strerror)
        ) from None
    try:
        _move_into_place(root, journal)
        return journal.with_state(DONE)
    except BaseException as error:
        with contextlib.suppress(OSError):
            _restore(root, journal)
        if isinstance(error, OSError):
            raise TorchferryError(
                say(
                    "cannot write {path}: {error}; everything was taken back", path=error.filename, error=error.strerror
                )
            ) from None
        raise


def undo(root: Path, journal: Journal) -> None:
    """Put back every file of a finished migration. The tree must be held (`exclusive`).

    Raises:
        ConflictError: a file has changed since; nothing was touched.
    """
    _restore(root, journal)


def _prepare(root: Path, writes: list[Write], target: str) -> Journal:
    """Write the journal beside its place and move it there, complete and durable."""
    folder = root / ".torchferry" / "journal"
    folder.mkdir(exist_ok=True)
    numbers = [int(item.name) for item in folder.iterdir() if item.name.isdigit()]
    new = folder / "new"
    shutil.rmtree(new, ignore_errors=True)
    (new / "after").mkdir(parents=True)
    changes: list[Change] = []
    with open(new / "before.bin", "wb") as before:
        for index, write in enumerate(writes):
            mode, mtime, owner = write.mode, 0, None
            if write.before is not None:
                status = os.lstat(root / write.path)
                mode, mtime, owner = stat.S_IMODE(status.st_mode), status.st_mtime_ns, (status.st_uid, status.st_gid)
            _write_new(new / "after" / f"{index:06}", write.after, mode, owner)
            old = write.before or b""
            changes.append(
                Change(
                    write.path,
                    None if write.before is None else digest(old),
                    digest(write.after),
                    before.tell(),
                    len(old),
                    mode,
                    mtime,
                )
            )
            before.write(old)
        before.flush()
        os.fsync(before.fileno())
    created = datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
    place = folder / f"{max(numbers, default=0) + 1:04}"
    journal = Journal(place, APPLYING, target, __version__, created, tuple(changes))
    write_durably(new / "manifest.json", journal.manifest())
    sync_folder(new / "after")
    os.replace(new, place)
    sync_folder(folder)
    return journal


def _write_new(path: Path, data: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        if owner is not None:
            with contextlib.suppress(OSError):  # only root may give files away
                os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move_into_place(root: Path, journal: Journal) -> None:
    folders = set()
    for index, change in enumerate(journal.changes):
        path = _inside(root, change.path)
        _move(journal.folder / "after" / f"{index:06}", path)
        folders.add(path.parent)
    for folder in folders:
        sync_folder(folder)


def _move(source: Path, path: Path) -> None:
    """Move a file into place in one step, also where another file system is mounted inside the tree."""
    try:
        os.replace(source, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(source, _beside(path))
        os.replace(_beside(path), path)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.torchferry")


def _restore(root: Path, journal: Journal) -> None:
    """Put back the files of a journal and discard it.

    Raises:
        ConflictError: a file is neither what it was before nor what the migration made of it.
    """
    states = {change.path: _state(root, change) for change in journal.changes}
    foreign = [path for path, state in states.items() if state == "foreign"]
    if foreign:
        raise ConflictError(foreign)
    if journal.state == DONE:
        journal = journal.with_state(UNDOING)
    for change in journal.changes:
        path = _inside(root, change.path)
        _beside(path).unlink(missing_ok=True)
        if states[change.path] != "after":
            continue
        if change.before is None:
            path.unlink()
            continue
        status = path.stat()
        old = journal.folder / "old"
        old.unlink(missing_ok=True)
        _write_new(old, journal.before(change), change.mode, (status.st_uid, status.st_gid))
        os.utime(old, ns=(change.mtime_ns, change.mtime_ns))
        _move(old, path)
    discard(journal)


def _state(root: Path, change: Change) -> str:
    """Return `before`, `after` or `foreign`: which content the file has now."""
    current = _current(root, change.path)
    found = None if current is None else digest(current)
    if found == change.before:
        return "before"
    return "after" if found == change.after else "foreign"


def _current(root: Path, path: str) -> bytes | None:
    """Return a file's content, or None when there is no such file."""
    try:
        return _inside(root, path).read_bytes()
    except FileNotFoundError:
        return None


def _inside(root: Path, path: str) -> Path:
    """Return the full path of a file of the tree.

    Raises:
        TorchferryError: a link on the way leads somewhere else, or the file itself is a link.
    """
    full = root / path
    real_root = os.path.realpath(root)
    folder = os.path.realpath(full.parent)
    if full.is_symlink() or (folder != real_root and not folder.startswith(real_root + os.sep)):
        raise TorchferryError(
            say("`{path}` leads out of {root} by a link; nothing is written there", path=path, root=root)
        )
    return full
