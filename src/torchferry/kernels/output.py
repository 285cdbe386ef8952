"""Write a ported tree: beside the original or over it, all files or none, and so that it can be taken back.

An output that was not written by torchferry, or that was edited since, is refused and stays as it is.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.folders import walk
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
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


def write_beside(ported: PortedTree, out: Path, neighbours: Sequence[PortedNeighbour] = ()) -> PortOutput:
    """Write the whole tree to a folder, and what changes with it outside, as one transaction.

    Raises:
        TorchferryError: the folder is there and not known as an unedited port, or it cannot be written.
    """
    out = Path(os.path.abspath(out))
    _refuse_collisions(ported)
    if out == Path(os.path.abspath(ported.root)):
        raise TorchferryError(say("{out} is the tree itself", out=out), say("name another folder, or use --in-place"))
    root = _root_of(out, neighbours)
    place = _within(root, out)
    writes = [Write(f"{place}/{file.new_path}", None, file.after, file.mode) for file in ported.files]
    writes += _changed(root, neighbours)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=out, error=error.strerror)) from None
    with exclusive(root) as tree:
        if os.path.lexists(out):
            earlier = _earlier_port(tree, place, out)
            if earlier is not None:
                wanted = {write.path: digest(write.after) for write in writes}
                if wanted == {change.path: change.after for change in earlier.changes}:
                    return PortOutput(out, root, 0)
                undo(tree, earlier)
        apply(tree, writes, ported.target.journal_key)
    return PortOutput(out, root, len(ported.files), (), len(writes) - len(ported.files))


def write_over(ported: PortedTree, neighbours: Sequence[PortedNeighbour] = ()) -> PortOutput:
    """Write the port into the tree itself: a file with another suffix stands beside its original.

    Raises:
        TorchferryError: a file to be made is there already, or the tree cannot be written.
    """
    _refuse_collisions(ported)
    top = Path(os.path.abspath(ported.root))
    root = _common([top, *(each.path.parent for each in neighbours)])
    present = {file.path for file in ported.files}
    writes: list[Write] = []
    originals: list[str] = []
    for file in ported.files:
        if file.new_path != file.path:
            originals.append(file.path)
            if file.new_path not in present:
                writes.append(Write(_within(root, top / file.new_path), None, file.after, file.mode))
        elif file.after != file.before:
            writes.append(Write(_within(root, top / file.path), file.before, file.after, file.mode))
    written = len(writes)
    writes += _changed(root, neighbours)
    if writes:
        with exclusive(root) as tree:
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
        mine = [journal for journal in journals if _is_port_to(journal, _within(root, out))]
        if place is None or not mine:
            return contents
        with own_folder(place, mine[-1].number) as folder:
            for change in mine[-1].changes:
                path = wanted.get(change.path)
                if path is not None and change.before is not None and content_digest(top, change.path) == change.after:
                    contents[path] = mine[-1].before(folder, change)
    return contents


def _root_of(out: Path, neighbours: Iterable[PortedNeighbour]) -> Path:
    """Return the folder whose journal a port is recorded in: that of an earlier port to the same place, if it is one
    that holds everything.
    """
    common = _common([out.parent, *(each.path.parent for each in neighbours)])
    earlier = _journal_root(out)
    return earlier if earlier is not None and common.is_relative_to(earlier) else common


def _journal_root(out: Path) -> Path | None:
    """Return the nearest folder whose journals have a port to a folder; None where there is none."""
    for folder in out.parents[:_MOST_ABOVE]:
        if not os.path.lexists(folder / FOLDER):
            continue
        with contextlib.suppress(TorchferryError):  # what others left in a folder above is no reason to stop
            if any(_is_port_to(journal, _within(folder, out)) for journal in known_journals(folder)):
                return folder
    return None


def _is_port_to(journal: Journal, place: str) -> bool:
    return journal.is_known and any(change.path.startswith(f"{place}/") for change in journal.changes)


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
            say("the tree has {names} already, beside the CUDA files of these names", names=_listed(wrong)),
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


def _earlier_port(tree: Tree, place: str, out: Path) -> Journal | None:
    """Return the journal of the port that an output holds; None for an empty folder.

    Args:
        tree: The folder that the journals belong to.
        place: The output, relative to it.
        out: The output.

    Raises:
        TorchferryError: it is something else, or was edited.
    """
    if out.is_symlink() or not out.is_dir():
        raise _refused(out)
    present = dict(_files(out))
    if not present:
        return None
    journals = [journal for journal in tree.journals() if journal.is_known]
    mine = [journal for journal in journals if _is_port_to(journal, place)]
    if not mine:
        deeper = _journal_root(out)
        if deeper is None:
            raise _refused(out)
        raise TorchferryError(
            say("{out} is an earlier port, which is recorded in {folder}", out=out, folder=deeper),
            say("take it back with `torchferry undo {folder}`, then port again", folder=deeper),
        )
    last = mine[-1]
    recorded = {
        change.path[len(place) + 1 :]: change.after for change in last.changes if change.path.startswith(f"{place}/")
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
    if last.number != journals[-1].number:
        raise TorchferryError(
            say("{out} is an earlier port, and other changes were made here since", out=out),
            say("take them back with `torchferry undo {folder}`, or name another folder with --out", folder=tree.root),
        )
    return last


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
