"""Write a ported tree: beside the original or over it, all files or none, and so that it can be taken back.

An output that was not written by torchferry, or that was edited since, is refused and stays as it is.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torchferry.core.config import project_root
from torchferry.core.enclosing_folders import enclosing_folders
from torchferry.core.errors import TorchferryError
from torchferry.core.folders import walk
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.core.write_fence import WriteFence
from torchferry.kernels.buildfiles.joining import PortedNeighbour
from torchferry.kernels.ported_tree import PortedTree
from torchferry.migration.directory import Directory
from torchferry.migration.journal import (
    FOLDER,
    Journal,
    content_digest,
    digest,
    known_journals,
    opened_journals,
    own_folder,
    read_journals,
)
from torchferry.migration.refused import refuse_changed
from torchferry.migration.transaction import Tree, Write, apply, exclusive, undo
from torchferry.source.tree import is_build_output

_MOST = 5
"""Files that a message names."""

_MOST_ABOVE = 16
"""Folders above an output in which its journal is looked for."""


class PortOutput(NamedTuple):
    """What was written.

    Attributes:
        folder: The ported tree.
        undo_from: The folder from which `torchferry undo` takes it back; None where nothing was written.
        written: How many files were written; 0 where the output is already what it would be.
        originals: Files that stay beside their ported copy, in a port that is written over the original.
        neighbours: How many files outside of the folder were changed with it: build files and tests.
    """

    folder: Path
    undo_from: Path | None
    written: int
    originals: tuple[str, ...] = ()
    neighbours: int = 0


def default_output(root: Path, suffix: str) -> Path:
    """Return the folder beside a tree: `csrc` -> `csrc_musa`."""
    real = Path(os.path.abspath(root))
    return real.with_name(f"{real.name}_{suffix}")


def place_of(path: Path, device: str, out: Path | None = None, in_place: bool = False) -> Path | None:
    """Return the folder that a port is written to; None where it is written over the tree."""
    if in_place:
        return None
    return out if out is not None else default_output(path if path.is_dir() else path.parent, device)


def differences(ported: PortedTree, neighbours: Sequence[PortedNeighbour] = ()) -> list[Write]:
    """Return what differs between the original and its port, as it would be written over it; for `--diff`.

    Paths are relative to the folder that holds the tree and its neighbours.
    """
    top = Path(os.path.abspath(ported.root))
    root = _common([top, *(each.path.parent for each in neighbours)])
    writes = [
        Write(_within(root, top / file.new_path), file.before, file.after, file.mode)
        for file in ported.files
        if file.before != file.after or file.path != file.new_path
    ]
    return writes + _changed(root, neighbours)


def is_written(ported: PortedTree, out: Path, neighbours: Sequence[PortedNeighbour] = ()) -> bool:
    """Whether a folder, and what changes with it outside, are as `write_beside` would write them; for `--check`."""
    out = Path(os.path.abspath(out))
    if out.is_symlink() or not out.is_dir():
        return False
    wanted = {file.new_path: digest(file.after) for file in ported.files}
    if wanted != {path: _digest(file) for path, file in _files(out)}:
        return False
    return all(_digest(os.fspath(each.path)) == digest(each.after) for each in neighbours)


def write_beside(
    ported: PortedTree, out: Path, neighbours: Sequence[PortedNeighbour] = (), source: Path | None = None
) -> PortOutput:
    """Write the whole tree to a folder, and what changes with it outside, as one transaction.

    Args:
        ported: The tree.
        out: The folder.
        neighbours: Files outside of it that change, too.
        source: The folder or file that was named; by default the tree. An undo of it takes the port back.

    Raises:
        TorchferryError: the folder is there and not known as an unedited port, or it cannot be written.
    """
    out = Path(os.path.abspath(out))
    top = Path(os.path.abspath(ported.root))
    _refuse_collisions(ported)
    if out == top:
        raise TorchferryError(
            say("the output {out} is the source tree itself", out=out), say("name another folder, or use --in-place")
        )
    root = _record_folder(top, out, neighbours)
    contents = {out / file.new_path: digest(file.after) for file in ported.files}
    contents |= {each.path: digest(each.after) for each in neighbours if each.before != each.after}
    fence = WriteFence.around(out, *(each.path for each in neighbours))
    earlier = _earlier_port(out)
    if earlier is not None and contents == {earlier.root / each.path: each.after for each in earlier.journal.changes}:
        return PortOutput(out, earlier.root, 0)
    if earlier is not None:
        with exclusive(earlier.root, fence=fence) as tree:
            again = _earlier_port(out)
            if again is not None:
                _refuse_unnamed(tree, again.journal)
                undo(tree, again.journal)
    refuse_changed(top, [(file.path, file.before) for file in ported.files if file.path not in ported.links])
    made = not os.path.lexists(out)
    try:
        (out if root == out else out.parent).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=out, error=error.strerror)) from None
    try:
        with exclusive(root, fence=fence) as tree:
            if os.path.lexists(out) and _earlier_port(out) is not None:
                raise TorchferryError(
                    say("another port has just written {out}", out=out),
                    say("wait until it has ended, then port again, or name another folder with --out"),
                )
            writes = [Write(_within(root, out / file.new_path), None, file.after, file.mode) for file in ported.files]
            changed = _changed(root, neighbours)
            apply(
                tree,
                writes + changed,
                ported.target.journal_key,
                source=_within(root, Path(os.path.abspath(source or top))),
                made_root=made and root == out,
            )
    except BaseException:
        if made:
            with contextlib.suppress(OSError):  # it is not empty
                out.rmdir()
        raise
    return PortOutput(out, root, len(writes), (), len(changed))


def write_over(ported: PortedTree, neighbours: Sequence[PortedNeighbour] = ()) -> PortOutput:
    """Write the port into the tree itself: a file with another suffix is next to its original.

    Raises:
        TorchferryError: a file to be made is there already, or the tree cannot be written.
    """
    _refuse_collisions(ported)
    top = Path(os.path.abspath(ported.root))
    root = _record_folder(top, top, neighbours)
    present = {file.path for file in ported.files}
    writes: list[Write] = []
    originals: list[str] = []
    for file in ported.files:
        if file.new_path != file.path:
            originals.append(file.path)
            if file.new_path not in present:
                writes.append(Write(_within(root, top / file.new_path), None, file.after, file.mode))
        elif file.after != file.before and file.path not in ported.links:  # what it points to is written itself
            writes.append(Write(_within(root, top / file.path), file.before, file.after, file.mode))
    written = len(writes)
    writes += _changed(root, neighbours)
    if writes:
        with exclusive(root, fence=WriteFence.around(top, *(each.path for each in neighbours))) as tree:
            apply(tree, writes, ported.target.journal_key)
    return PortOutput(ported.root, root if writes else None, written, tuple(originals), len(writes) - written)


def original_contents(out: Path, files: Iterable[Path]) -> dict[Path, bytes]:
    """Return what files outside of a port were before it, where its journal has them and they are as it left them.

    Args:
        out: The folder of the port.
        files: The files.
    """
    out = Path(os.path.abspath(out))
    root = _journal_root(out)
    contents: dict[Path, bytes] = {}
    wanted = {_within(root, Path(os.path.abspath(file))): Path(os.path.abspath(file)) for file in files} if root else {}
    if root is None or not wanted:
        return contents
    with Directory.open(root) as top, opened_journals(top) as place:
        journals = read_journals(root, top, place) if place is not None else []
        mine = [journal for journal in journals if _is_port_to(journal, root, out)]
        if place is None or not mine:
            return contents
        with own_folder(place, mine[-1].number) as folder:
            for change in mine[-1].changes:
                path = wanted.get(change.path)
                if path is not None and change.before is not None and content_digest(top, change.path) == change.after:
                    contents[path] = mine[-1].before(folder, change)
    return contents


def _record_folder(top: Path, out: Path, neighbours: Iterable[PortedNeighbour]) -> Path:
    """Return the folder whose journal a port is recorded in.

    That is the top of the project, where it holds all that is written: an undo in any folder of it then finds the
    port. Without a project, or for an output outside of it, it is the output itself; and where files change outside of
    the output, the folder that holds all of them. It is never a folder in which a project would only be one of many.

    Args:
        top: The sources.
        out: The output.
        neighbours: Files outside of it that change, too.

    Raises:
        TorchferryError: the files that change belong to different projects.
    """
    outside = [each.path.parent for each in neighbours if not each.path.is_relative_to(out)]
    if out == top and not outside:
        return out
    project = project_root(top)
    if project is not None:
        project = Path(os.path.abspath(os.path.join(top, os.path.relpath(project, os.path.realpath(top)))))
        if project_root(_existing(out)) == Path(os.path.realpath(project)) and all(
            folder.is_relative_to(project) for folder in (out, *outside)
        ):
            return project
    if not outside:
        return out
    common = _common([out, *outside])
    real = Path(os.path.realpath(common))
    if common in outside or all(real in enclosing_folders(_existing(folder)) for folder in (out, *outside)):
        return common
    raise TorchferryError(
        say("{out} and {file} belong to different projects", out=out, file=outside[0]),
        say("name an output in the project of that file with --out, or port without --build and --tests"),
    )


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that is there."""
    while not folder.is_dir() and folder.parent != folder:
        folder = folder.parent
    return folder


def _journal_root(out: Path) -> Path | None:
    """Return the nearest folder whose journals have a port to a folder; None where there is none.

    Earlier versions recorded a port in the folder that holds its output, so this looks further up than an undo. It
    only reads, and only what this user made.
    """
    for folder in (out, *out.parents[:_MOST_ABOVE]):
        if not os.path.lexists(folder / FOLDER):
            continue
        with contextlib.suppress(TorchferryError):  # what others left in a folder above is no reason to stop
            if any(_is_port_to(journal, folder, out) for journal in known_journals(folder)):
                return folder
    return None


def _is_port_to(journal: Journal, root: Path, out: Path) -> bool:
    """Whether a known journal made an output. A migration of files in it did not: it changed what was there."""
    made = [root / change.path for change in journal.changes if change.before is None]
    return journal.is_known and any(path.is_relative_to(out) for path in made)


def _common(folders: Sequence[Path]) -> Path:
    return Path(os.path.commonpath([os.path.abspath(folder) for folder in folders]))


def _within(root: Path, path: Path) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")


def _changed(root: Path, neighbours: Iterable[PortedNeighbour]) -> list[Write]:
    return [
        Write(_within(root, each.path), each.before, each.after, each.mode)
        for each in neighbours
        if each.before != each.after
    ]


def _refuse_collisions(ported: PortedTree) -> None:
    """Refuse a tree in which two files would become one, unless they are the same."""
    contents: dict[str, bytes] = {}
    names = Counter(file.new_path for file in ported.files)
    wrong = [
        file.new_path
        for file in ported.files
        if names[file.new_path] > 1 and contents.setdefault(file.new_path, file.after) != file.after
    ]
    if wrong:
        raise TorchferryError(
            say("the tree already has {names}, which the port of its CUDA files would replace", names=_listed(wrong)),
            say("leave out the earlier port with `--ignore`, or remove it"),
        )
    if any(count > 1 for count in names.values()):
        raise TorchferryError(
            say(
                "the tree has been ported already: {names}",
                names=_listed([name for name, count in names.items() if count > 1]),
            ),
            say("`torchferry undo` takes an earlier port back"),
        )


class _EarlierPort(NamedTuple):
    """The port that an output holds: the folder that it is recorded in, and its journal."""

    root: Path
    journal: Journal


def _earlier_port(out: Path) -> _EarlierPort | None:
    """Return the port that an output holds; None for an empty folder, or for none.

    Raises:
        TorchferryError: it is something else, or was edited.
    """
    if not os.path.lexists(out):
        return None
    if out.is_symlink() or not out.is_dir():
        raise _refused(out)
    present = dict(_files(out))
    if not present:
        return None
    root = _journal_root(out)
    if root is None:
        raise _refused(out)
    journals = known_journals(root)
    last = [journal for journal in journals if _is_port_to(journal, root, out)][-1]
    recorded = {
        (root / change.path).relative_to(out).as_posix(): change.after
        for change in last.changes
        if (root / change.path).is_relative_to(out)
    }
    edited = sorted(
        {path for path, file in present.items() if recorded.get(path) != _digest(file)}
        | (recorded.keys() - present.keys())
    )
    if edited:
        raise TorchferryError(
            say("{out} was edited since it was written: {names}", out=out, names=_listed(edited)),
            say("keep it and write to another folder with --out, or move it away; nothing was touched"),
        )
    paths = {change.path for change in last.changes}
    later = journals[journals.index(last) + 1 :]
    if any(change.path in paths for journal in later for change in journal.changes):
        raise TorchferryError(
            say("{out} is an earlier port, and torchferry has changed files of it again since", out=out),
            say(
                "take these changes back with `torchferry undo {folder}`, or name another folder with --out",
                folder=root,
            ),
        )
    return _EarlierPort(root, last)


def _refuse_unnamed(tree: Tree, journal: Journal) -> None:
    """Refuse to take back an earlier port that changed files which this one does not name.

    Raises:
        TorchferryError: it did.
    """
    changed = [change.path for change in journal.changes if change.before is not None]
    refused = [path for path in changed if not tree.fence.permits(tree.real / path)]
    if refused:
        raise TorchferryError(
            say("the earlier port changed {names} too, which this one does not name", names=_listed(refused)),
            say(
                "name them again with --build or --tests, or take it back first: `torchferry undo {folder}`",
                folder=tree.root,
            ),
        )


def _refused(out: Path) -> TorchferryError:
    return TorchferryError(
        say("`{out}` already exists, and torchferry did not write it", out=out),
        say("name another folder with --out, or move it away; nothing was touched"),
    )


def _files(out: Path) -> Iterator[tuple[str, str]]:
    """Yield every file below a folder, without what a build wrote there; a link is one that no journal has."""
    for folder, folders, names in walk(out):
        if folder != os.fspath(out) and is_build_output(folder, {*folders, *names}):
            folders.clear()
            continue
        if folder == os.fspath(out) and FOLDER in folders:
            folders.remove(FOLDER)
        for name in names:
            full = os.path.join(folder, name)
            yield os.path.relpath(full, out).replace(os.sep, "/"), full


def _digest(file: str) -> str:
    if os.path.islink(file) or not os.path.isfile(file):
        return ""
    with open(file, "rb") as opened:
        return digest(opened.read())


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_MOST]) + (f" (+{len(names) - _MOST})" if len(names) > _MOST else "")
