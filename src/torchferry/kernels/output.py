"""Write a ported tree: beside the original or over it, all files or none, and so that it can be taken back.

An output that was not written by torchferry, or that was edited since, is refused and stays as it is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.kernels.ported_tree import PortedTree
from torchferry.migration.journal import Journal, digest
from torchferry.migration.transaction import Tree, Write, apply, exclusive, undo

_MOST = 5
"""Files that a message names."""


class PortOutput(NamedTuple):
    """What was written.

    Attributes:
        folder: The ported tree.
        undo_from: The folder from which `torchferry undo` takes it back; None where nothing was written.
        written: How many files were written; 0 where the output is already what it would be.
        originals: Files that stay beside their ported copy, in a port that is written over the original.
    """

    folder: Path
    undo_from: Path | None
    written: int
    originals: tuple[str, ...] = ()


def default_output(root: Path, suffix: str) -> Path:
    """Return the folder beside a tree: `csrc` -> `csrc_musa`."""
    real = Path(os.path.abspath(root))
    return real.with_name(f"{real.name}_{suffix}")


def differences(ported: PortedTree, out: Path | None) -> list[Write]:
    """Return what differs between the original and its port, as it would be written over it; for `--diff`."""
    prefix = "" if out is None else f"{out.name}/"
    return [
        Write(prefix + file.new_path, file.before, file.after, file.mode)
        for file in ported.files
        if file.before != file.after or file.path != file.new_path
    ]


def write_beside(ported: PortedTree, out: Path) -> PortOutput:
    """Write the whole tree to a folder.

    Raises:
        TorchferryError: the folder is there and not known as an unedited port, or it cannot be written.
    """
    out = Path(os.path.abspath(out))
    _refuse_collisions(ported)
    if out == Path(os.path.abspath(ported.root)):
        raise TorchferryError(say("{out} is the tree itself", out=out), say("name another folder, or use --in-place"))
    writes = [Write(f"{out.name}/{file.new_path}", None, file.after, file.mode) for file in ported.files]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=out, error=error.strerror)) from None
    with exclusive(out.parent) as tree:
        if os.path.lexists(out):
            earlier = _earlier_port(tree, out)
            if earlier is not None:
                wanted = {write.path: digest(write.after) for write in writes}
                if wanted == {change.path: change.after for change in earlier.changes}:
                    return PortOutput(out, out.parent, 0)
                undo(tree, earlier)
        apply(tree, writes, ported.target.journal_key)
    return PortOutput(out, out.parent, len(writes))


def write_over(ported: PortedTree) -> PortOutput:
    """Write the port into the tree itself: a file with another suffix stands beside its original.

    Raises:
        TorchferryError: a file to be made is there already, or the tree cannot be written.
    """
    _refuse_collisions(ported)
    by_path = {file.path: file for file in ported.files}
    writes: list[Write] = []
    originals: list[str] = []
    for file in ported.files:
        if file.new_path != file.path:
            originals.append(file.path)
            there = by_path.get(file.new_path)
            if there is None:
                writes.append(Write(file.new_path, None, file.after, file.mode))
        elif file.after != file.before:
            writes.append(Write(file.path, file.before, file.after, file.mode))
    if writes:
        with exclusive(ported.root) as tree:
            apply(tree, writes, ported.target.journal_key)
    return PortOutput(ported.root, ported.root if writes else None, len(writes), tuple(originals))


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


def _earlier_port(tree: Tree, out: Path) -> Journal | None:
    """Return the journal of the port that an output holds; None for an empty folder.

    Raises:
        TorchferryError: it is something else, or was edited.
    """
    if out.is_symlink() or not out.is_dir():
        raise _refused(out)
    present = dict(_files(out))
    if not present:
        return None
    journals = [journal for journal in tree.journals() if journal.is_known]
    mine = [j for j in journals if j.changes and all(change.path.startswith(f"{out.name}/") for change in j.changes)]
    if not mine:
        raise _refused(out)
    last = mine[-1]
    recorded = {change.path.partition("/")[2]: change.after for change in last.changes}
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
            say("take them back with `torchferry undo {folder}`, or name another folder with --out", folder=out.parent),
        )
    return last


def _refused(out: Path) -> TorchferryError:
    return TorchferryError(
        say("`{out}` already exists, and torchferry did not write it", out=out),
        say("name another folder with --out, or move it away; nothing was touched"),
    )


def _files(out: Path) -> Iterator[tuple[str, str]]:
    """Yield every file below a folder; a link is one that no journal has."""
    for folder, folders, names in os.walk(out):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            full = os.path.join(folder, name)
            yield os.path.relpath(full, out).replace(os.sep, "/"), full


def _digest(file: str) -> str:
    if os.path.islink(file) or not os.path.isfile(file):
        return ""
    with open(file, "rb") as opened:
        return digest(opened.read())


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_MOST]) + (f" (+{len(names) - _MOST})" if len(names) > _MOST else "")
