"""Change many files as one: all of them or, after an interruption, none.

First everything is written beside the tree and made durable: the old contents, the new ones, the list. Then the new
files are moved into place, which needs no room on the disk. A run that ends in between, by a signal, a power cut or an
error, is taken back: at once where torchferry still runs, else by the next command in that tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.core.progress import counted
from torchferry.core.record import NamedTuple
from torchferry.core.write_fence import WriteFence
from torchferry.migration.directory import Directory, WrongKindError
from torchferry.migration.durable import Durable
from torchferry.migration.interrupted_above import refuse_interrupted_above
from torchferry.migration.journal import (
    APPLYING,
    DONE,
    FOLDER,
    LARGEST_MANIFEST,
    UNDOING,
    Change,
    Journal,
    content_digest,
    digest,
    discard,
    end,
    is_tracked,
    journals,
    left_over,
    next_number,
    own_folder,
    read_journals,
    refuse_path,
    remove_contents,
    remove_control_folder,
    remove_journal,
    write_first_manifests,
)
from torchferry.migration.lock import locked
from torchferry.migration.refused import ConflictError, UnknownJournalError
from torchferry.migration.signing import Signer, signer

_COMPILED = "__pycache__"


class Write(NamedTuple):
    """A file to be written; the folders that it needs are made.

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


class Tree(NamedTuple):
    """A tree that is held for writing.

    Attributes:
        root: Its path, as the user named it.
        top: It, open.
        place: The folder of its journals, open.
        signing: What signs its journals.
        real: Its real path, by which the fence knows it.
        fence: What the request may change.
        taken_back: Journals that were taken back while it is held.
        recovered: Those of interrupted runs.
    """

    root: Path
    top: Directory
    place: Directory
    signing: Signer
    real: Path
    fence: WriteFence
    taken_back: list[Journal]
    recovered: tuple[Journal, ...] = ()

    def journals(self) -> list[Journal]:
        """Return the journals, oldest first."""
        return read_journals(self.root, self.top, self.place, tracked=False)


@contextmanager
def exclusive(root: Path, trust: bool = False, fence: WriteFence | None = None) -> Iterator[Tree]:
    """Hold the tree for writing; what interrupted runs did is taken back first.

    A `.torchferry` that holds no journal in the end is removed.

    Args:
        root: The tree.
        trust: Whether journals are acted on that are not known to be made here by this user.
        fence: What the request may change; by default what is in the tree.

    Raises:
        UnknownJournalError: an interrupted run is not known as this user's.
        OutsideRequestError: an interrupted run changed files that this request may not.
        TorchferryError: a run was interrupted in a folder above, after it changed files of this tree.
    """
    try:
        top = Directory.open(root)
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=root, error=error.strerror)) from None
    with top:
        real = Path(os.path.realpath(root))
        if not top.is_at(real):
            raise TorchferryError(say("{path} has just been replaced; nothing was touched", path=root))
        fence = fence or WriteFence.around(root)
        fence.require_in_roots([real / FOLDER])
        refuse_interrupted_above(real)
        is_new = not top.has(FOLDER)
        with locked(top) as control:
            if not is_new and is_tracked(root):
                raise TorchferryError(
                    say("git tracks `{path}`: it came with the repository and is ignored", path=control.path),
                    say("take it out of the repository (`git rm -r --cached .torchferry`) and remove the folder"),
                )
            with own_folder(control, "journal") as place:
                tree = Tree(root, top, place, signer(root, top, create=True), real, fence, [])
                try:
                    yield tree._replace(recovered=tuple(recover(tree, trust)))
                except KeyboardInterrupt:  # at any step, also of an undo; a second one leaves it to the next command
                    with contextlib.suppress(TorchferryError):
                        recover(tree, trust)
                    raise
                finally:
                    remove_control_folder(top, control)
                    if any(journal.made_root for journal in tree.taken_back):
                        with contextlib.suppress(OSError):  # something of the user's is in it
                            os.rmdir(real)


def interrupted(root: Path) -> list[Journal]:
    """Return the journals of runs that were interrupted."""
    return [journal for journal in journals(root) if journal.state != DONE]


def recover(tree: Tree, trust: bool = False) -> list[Journal]:
    """Take back what interrupted runs have done so far, and return their journals.

    Raises:
        ConflictError: a file was changed by somebody else since; nothing was touched.
        OutsideRequestError: one of them changed files that this request may not.
        UnknownJournalError: a journal is not known to be made here by this user, and `trust` is not set.
    """
    taken_back = [journal for journal in tree.journals() if journal.state != DONE]
    refuse_unknown(tree, taken_back, trust)
    advice = say("a migration was interrupted there; undo it first: `torchferry undo {root}`", root=tree.root)
    for journal in taken_back:
        _require_restorable(tree, journal, advice)
    for journal in reversed(taken_back):
        _restore(tree, journal)
    for name in left_over(tree.place):
        remove_journal(tree.place, name)
    return taken_back


def apply(
    tree: Tree, writes: Iterable[Write], target: str, suffix: str = "", *, source: str = "", made_root: bool = False
) -> Journal:
    """Write files as one transaction and return its journal, which keeps what is said of it.

    Args:
        tree: The tree.
        writes: The files.
        target: The target, or the command that writes.
        suffix: What the names of new files end with.
        source: The folder that new files were made from.
        made_root: Whether the tree was made for them.

    Raises:
        ConflictError: a file is not what the new content was made from; nothing was touched.
        OutsideRequestError: a file may not be changed by this request; nothing was touched.
        TorchferryError: the disk is full or a file may not be written; everything was taken back.
    """
    planned = list(writes)
    if len({write.path for write in planned}) != len(planned):
        raise ValueError("a path is to be written twice")  # no journal could take such a migration back
    for write in planned:
        refuse_path(write.path, say("the migration"))
    expected = {write.path: None if write.before is None else digest(write.before) for write in planned}
    changed = [path for path, before in expected.items() if _current(tree, path) != before]
    if changed:
        raise ConflictError(changed, read=True)
    tree.fence.require(
        [tree.real / write.path for write in planned if write.before is not None],
        say("name these files, or the folder around them"),
        new=[tree.real / write.path for write in planned if write.before is None],
    )
    name = f"new-{os.urandom(16).hex()}"
    try:
        about = {"suffix": suffix, "source": source, "made_root": made_root}
        journal = _prepare(tree, planned, target, name, about)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove_journal(tree.place, name)
        raise TorchferryError(
            say("cannot write the journal: {error}; nothing was touched", error=error.strerror)
        ) from None
    try:
        _move_into_place(tree, journal)
        with own_folder(tree.place, journal.number) as folder:
            return end(folder, journal)
    except BaseException as error:
        problem = _taken_back(tree, journal, error.paths if isinstance(error, ConflictError) else ())
        if not isinstance(error, OSError):
            if problem is not None and isinstance(error, TorchferryError):
                raise _half_done(error.message, problem, tree) from None
            raise
        failure = say("cannot write {path}: {error}", path=error.filename, error=error.strerror)
        if problem is not None:
            raise _half_done(failure, problem, tree) from None
        raise TorchferryError(say("{error}; everything was restored", error=failure)) from None


def _half_done(failure: Message, problem: Message, tree: Tree) -> TorchferryError:
    return TorchferryError(
        say("{error}; restoring failed too: {problem}", error=failure, problem=problem),
        say("fix the cause, then `torchferry undo {root}` restores the rest", root=tree.root),
    )


def undo(tree: Tree, journal: Journal, trust: bool = False) -> None:
    """Put back every file of a finished migration.

    Raises:
        ConflictError: a file has changed since; nothing was touched.
        OutsideRequestError: it changed files that this request may not; nothing was touched.
        UnknownJournalError: the journal is not known to be made here by this user, and `trust` is not set.
    """
    refuse_unknown(tree, [journal], trust)
    _require_restorable(tree, journal, say("undo it where it was made: `torchferry undo {root}`", root=tree.root))
    _restore(tree, journal)


def _require_restorable(tree: Tree, journal: Journal, advice: Message) -> None:
    """Refuse a journal that changed files which this request may not change."""
    tree.fence.require([tree.real / change.path for change in journal.changes], advice)


def refuse_unknown(tree: Tree, chosen: Iterable[Journal], trust: bool) -> None:
    """Refuse journals that are not known to be made here by this user, unless `trust` says to act on them.

    Raises:
        UnknownJournalError: one is not.
    """
    for journal in chosen:
        if not journal.is_known and not trust:
            raise UnknownJournalError(tree.root, journal)


def _taken_back(tree: Tree, journal: Journal, unwritten: Iterable[str]) -> Message | None:
    """Take back what a failed run has done, but for files that it did not reach; return why that failed."""
    try:
        _restore(tree, journal, frozenset(unwritten))
    except TorchferryError as error:
        return error.message
    return None


def _prepare(tree: Tree, writes: list[Write], target: str, name: str, about: dict[str, Any]) -> Journal:
    """Write the journal beside its place and move it there, complete and durable."""
    place = tree.place
    place.make_folder(name)
    changes: list[Change] = []
    with contextlib.ExitStack() as stack:
        new = stack.enter_context(place.folder(name))
        new.make_folder("after")
        after = stack.enter_context(new.folder("after"))
        durable = stack.enter_context(Durable())  # all of it is durable before the journal gets its number
        offset, old_contents = 0, []
        for index, write in enumerate(counted(say("writing files"), writes)):
            mode, mtime, owner = write.mode & 0o777, 0, None
            if write.before is not None:
                with tree.top.parent(write.path) as parent:
                    status = parent.status(_base(write.path))
                mode, mtime, owner = stat.S_IMODE(status.st_mode), status.st_mtime_ns, (status.st_uid, status.st_gid)
            after.create(f"{index:06}", write.after, mode, owner, durable=durable)
            old = write.before or b""
            before = None if write.before is None else digest(old)
            changes.append(Change(write.path, before, digest(write.after), offset, len(old), mode & 0o777, mtime))
            old_contents.append(old)
            offset += len(old)
        new.create("before.bin", old_contents, durable=durable)
        created = datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
        number = next_number(place)
        journal = Journal(
            place.path / number,
            APPLYING,
            target,
            __version__,
            created,
            tuple(changes),
            os.urandom(16).hex(),
            tree.signing.missing,
            _missing_folders(tree, [change.path for change in changes]),
            **about,
        )
        manifest = journal.manifest(tree.signing)
        if len(manifest) > LARGEST_MANIFEST:
            raise OSError(errno.EFBIG, f"{len(changes)} files are too many for one journal")
        write_first_manifests(new, journal, manifest, tree.signing, durable)
        after.sync(durable)
        new.sync(durable)
    place.replace(name, place, number)
    try:
        place.sync()
    except OSError:
        discard(place, journal)
        raise
    return journal


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _missing_folders(tree: Tree, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the folders that files need and that are not there, an outer one before what it holds."""
    needed = {folder for path in paths for folder in _around(path)}
    missing: set[str] = set()
    present: set[str] = set()
    for folder in sorted(needed, key=lambda folder: folder.count("/"), reverse=True):
        if folder in present:
            continue
        if _has_folder(tree, folder):
            present.update(_around(f"{folder}/"))  # the folders above it are there, too
        else:
            missing.add(folder)
    return tuple(sorted(missing))


def _around(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _has_folder(tree: Tree, folder: str) -> bool:
    try:
        with _parent(tree, folder) as parent:
            return parent.has(_base(folder))
    except FileNotFoundError:  # the folder that holds it is missing
        return False


def _remove_folders(tree: Tree, journal: Journal) -> None:
    """Remove the folders that a migration made, with what Python compiled of its files, where nothing else is there."""
    created = {change.path for change in journal.changes if change.before is None}
    for folder in reversed(journal.folders):
        with contextlib.suppress(OSError), _parent(tree, folder) as parent:
            with parent.folder(_base(folder)) as own:
                _remove_compiled(own, folder, created)
            parent.remove_folder(_base(folder))


def _remove_compiled(own: Directory, folder: str, created: set[str]) -> None:
    """Remove what Python compiled of the files that a migration made."""
    if not own.has(_COMPILED):
        return
    with own.folder(_COMPILED) as compiled:
        for name in compiled.names():
            if name.endswith(".pyc") and f"{folder}/{name.partition('.')[0]}.py" in created:
                compiled.remove(name)
    own.remove_folder(_COMPILED)


def _move_into_place(tree: Tree, journal: Journal) -> None:
    for path in journal.folders:
        with _parent(tree, path) as parent:
            parent.make_folder(_base(path), 0o755)
    with own_folder(tree.place, journal.number) as folder, own_folder(folder, "after") as after:
        for index, change in enumerate(counted(say("writing files"), journal.changes)):
            if _current(tree, change.path) != change.before:  # an editor saved it while the journal was written
                raise ConflictError([change.path], read=True)
            with _parent(tree, change.path) as parent:
                _move(after, f"{index:06}", parent, _base(change.path), _temporary(journal, index))
    _sync_parents(tree, [change.path for change in journal.changes])


def _sync_parents(tree: Tree, paths: Iterable[str]) -> None:
    """Make the names of files durable, each folder once."""
    with Durable() as durable:
        for path in {path.rpartition("/")[0]: path for path in paths}.values():
            with _parent(tree, path) as parent:
                parent.sync(durable)


def _temporary(journal: Journal, index: int) -> str:
    """Return the name of the file by which a content gets to another file system; no other file has it."""
    return f".torchferry-{journal.id}-{index}"


def _move(source: Directory, name: str, parent: Directory, new_name: str, temporary: str) -> None:
    """Move a file into place in one step, also where another file system is mounted inside the tree."""
    try:
        source.replace(name, parent, new_name)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        status = source.status(name)
        parent.remove(temporary)
        try:
            parent.create(
                temporary,
                source.read(name),
                stat.S_IMODE(status.st_mode),
                (status.st_uid, status.st_gid),
                status.st_mtime_ns,
            )
            parent.replace(temporary, parent, new_name)
        except OSError:
            parent.remove(temporary)
            raise
        source.remove(name)


def _restore(tree: Tree, journal: Journal, unwritten: Container[str] = ()) -> None:
    """Put back the files of a journal and discard it.

    Of a finished migration all old contents are written beside the tree first, so that a full disk is found before a
    file is touched. What was interrupted is put back one file after the other, which needs the least room. Files that
    are `unwritten` were not written yet, and somebody else has changed them.

    Raises:
        ConflictError: a file is neither what it was before nor what the migration made of it.
        TorchferryError: a file cannot be put back.
    """
    states = [_state(tree, change) for change in counted(say("comparing files"), journal.changes)]
    paths = [change.path for change in journal.changes]
    foreign = [path for path, state in zip(paths, states, strict=True) if state == "foreign" and path not in unwritten]
    if foreign:
        raise ConflictError(foreign)
    todo = [index for index, state in enumerate(states) if state == "after"]
    try:
        with own_folder(tree.place, journal.number) as folder:
            remove_contents(folder, "after")  # never needed again, and the disk may be full
            remove_contents(folder, "old")
            folder.remove("old")  # a file of earlier versions
            folder.make_folder("old")
            with own_folder(folder, "old") as old:
                if journal.state == DONE:
                    _write_all_old(tree, folder, old, journal, todo)
                _put_back(tree, folder, old, journal, todo)
        _sync_parents(tree, [journal.changes[index].path for index in todo])
        _remove_folders(tree, journal)
        discard(tree.place, journal)
        tree.taken_back.append(journal)
    except OSError as error:
        raise _cannot_put_back(error, say("the journal lists what remains to be done")) from None


def _cannot_put_back(error: OSError, state: Message) -> TorchferryError:
    return TorchferryError(
        say("cannot restore {path}: {error}; {state}", path=error.filename, error=error.strerror, state=state),
        say("free space on the disk, or fix the cause of the error, then try again"),
    )


def _write_all_old(tree: Tree, folder: Directory, old: Directory, journal: Journal, todo: list[int]) -> None:
    """Write all old contents and give the journal the state `undoing`; where that fails, nothing is left of them."""
    try:
        with Durable() as durable:
            for index in counted(say("restoring files"), todo):
                _write_old(tree, folder, old, journal, index, durable)
            old.sync(durable)
        journal.with_state(folder, UNDOING, tree.signing)
    except BaseException as error:
        with contextlib.suppress(OSError):
            remove_contents(folder, "old")
        if isinstance(error, OSError):
            raise _cannot_put_back(error, say("nothing was touched")) from None
        raise


def _write_old(
    tree: Tree, folder: Directory, old: Directory, journal: Journal, index: int, durable: Durable | None = None
) -> None:
    """Write an old content with the mode and time of the old file, unless it is there already or there is none."""
    change, name = journal.changes[index], f"{index:06}"
    if change.before is None or old.has(name):
        return
    with _parent(tree, change.path) as parent:
        status = parent.status(_base(change.path))
    mode = change.mode & 0o777 | stat.S_IMODE(status.st_mode) & 0o7000  # a journal adds no other bits
    owner = status.st_uid, status.st_gid
    old.create(name, journal.before(folder, change), mode, owner, change.mtime_ns, durable)


def _put_back(tree: Tree, folder: Directory, old: Directory, journal: Journal, todo: list[int]) -> None:
    chosen = frozenset(todo)
    for index, change in enumerate(counted(say("restoring files"), journal.changes)):
        try:
            parent = _parent(tree, change.path)
        except FileNotFoundError:
            continue  # the folder has gone, with a file that the migration made
        with parent:
            parent.remove(_temporary(journal, index))  # of a run that was killed in `_move`
            if index not in chosen:
                continue
            if _state(tree, change) == "foreign":  # an editor saved it while the old contents were written
                raise ConflictError([change.path], say("the journal lists what remains to be done"))
            if change.before is None:
                parent.remove(_base(change.path))
            else:
                _write_old(tree, folder, old, journal, index)
                _move(old, f"{index:06}", parent, _base(change.path), _temporary(journal, index))


def _state(tree: Tree, change: Change) -> str:
    """Return `before`, `after` or `foreign`: which content the file has now."""
    current = _current(tree, change.path)
    if current == change.before:
        return "before"
    return "after" if current == change.after else "foreign"


def _current(tree: Tree, path: str) -> str | None:
    """Return the SHA-256 of a file's content, or None when there is no such file.

    Raises:
        TorchferryError: a link is on the way, or the file cannot be read.
    """
    try:
        return content_digest(tree.top, path)
    except WrongKindError:
        raise _linked(path) from None
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=error.filename, error=error.strerror)) from None


def _parent(tree: Tree, path: str) -> Directory:
    """Open the folder of a file of the tree.

    Raises:
        TorchferryError: a link is on the way.
    """
    try:
        return tree.top.parent(path)
    except WrongKindError:
        raise _linked(path) from None


def _linked(path: str) -> TorchferryError:
    return TorchferryError(say("`{path}` is a link, or is reached through one; nothing is written there", path=path))
