"""A migration into a copy: the tree as it is, with the rewritten files in it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Container, Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.folders import copy_tree, identity
from torchferry.core.messages import say
from torchferry.core.staging import is_staging_name, staged_folder
from torchferry.migration.directory import Directory
from torchferry.migration.refused import ConflictError
from torchferry.migration.transaction import Write
from torchferry.source.tree import is_control_name

_MOST = 5
"""Files that an error names."""


def write_copy(root: Path, out: Path, writes: Iterable[Write], without: Container[str] = ()) -> list[str]:
    """Copy the tree to `out` and write the rewritten files there.

    The copy appears under its name only when it is complete. Links are copied as links; what a link in the tree
    points to is not. Returns what was left out, since it is no file: pipes, sockets and devices.

    Args:
        root: The tree.
        out: Where the copy is to be.
        writes: The rewritten files.
        without: Names of files and folders that are left out.

    Raises:
        TorchferryError: `out` exists and is not an empty folder, or it cannot be written.
    """
    special: list[str] = []
    skipped: set[tuple[int, int] | None] = set()

    def check() -> None:
        if os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
            raise TorchferryError(
                say("`{out}` already exists", out=out), say("name a folder that does not exist or is empty")
            )

    def leave_out(folder: str, names: list[str]) -> set[str]:
        unwanted = {name for name in names if is_control_name(name) or is_staging_name(name) or name in without}
        unwanted |= {name for name in names if identity(os.path.join(folder, name)) in skipped}
        for name in names:
            path = os.path.join(folder, name)
            if name not in unwanted and _is_special(path):
                special.append(os.path.relpath(path, root).replace(os.sep, "/"))
                unwanted.add(name)
        return unwanted

    try:
        with staged_folder(out, check) as new:
            skipped |= {identity(out), identity(new.parent)} - {None}
            copy_tree(root, new, leave_out)
            with Directory.open(new) as top:
                for write in writes:
                    _write(top, write)
    except (OSError, shutil.Error) as error:
        raise _unwritable(out, error) from None
    return sorted(special)


def _is_special(path: str) -> bool:
    """Whether a path is a pipe, a socket or a device: reading one can wait or go on for ever."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False  # copying says what is wrong
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def _unwritable(out: Path, error: OSError) -> TorchferryError:
    reason = error.strerror
    if isinstance(error, shutil.Error):  # its argument lists source, target and reason of each file
        failed = [f"{source}: {why}" for source, _, why in error.args[0]]
        reason = "; ".join(failed[:_MOST]) + (f" (+{len(failed) - _MOST})" if len(failed) > _MOST else "")
    return TorchferryError(say("cannot write the copy {out}: {error}", out=out, error=reason or error))


def _write(top: Directory, write: Write) -> None:
    """Write a file of the copy; a link in its place is replaced, and none on the way to it is followed."""
    name = write.path.rpartition("/")[2]
    with top.parent(write.path) as parent:
        mode = write.mode
        if parent.has(name):
            status = parent.status(name)
            if stat.S_ISREG(status.st_mode) and parent.read(name) != write.before:
                raise ConflictError([write.path], read=True)  # the original was changed after it was examined
            mode = write.mode if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
        parent.remove(name)  # a copied file keeps its mode, which may forbid writing
        parent.create(name, write.after, mode & 0o777)
