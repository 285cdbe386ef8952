"""Generated files in a folder: whole or not at all, never over somebody's own work, unchanged ones untouched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.migration.directory import Directory, WrongKindError
from torchferry.migration.journal import discard
from torchferry.migration.transaction import Write, apply, exclusive

FIRST_LINE = "// written by torchferry; to change it, change what it is made from"
_CHECKSUM = "// sha256 "


class WriteOutcome(NamedTuple):
    """What became of the files of a folder: names that were written, that were right already, and that were removed."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]


_LOCKS = (".{}.swp", ".{}.swo", ".#{}", "#{}#", ".{}.kate-swp")
"""What editors keep beside a file that they have open: Vim and nano, Emacs, Kate."""


def signed(text: str) -> bytes:
    """Return a C++ file with the lines by which it is known again."""
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f"{FIRST_LINE}\n{_CHECKSUM}{checksum}\n{text}".encode()


def is_untouched(data: bytes) -> bool | None:
    """Whether a file is as it was written; None when it is not a file of this kind."""
    first, _, rest = data.partition(b"\n")
    checksum, _, text = rest.partition(b"\n")
    if first != FIRST_LINE.encode() or not checksum.startswith(_CHECKSUM.encode()):
        return None
    return checksum[len(_CHECKSUM) :] == hashlib.sha256(text).hexdigest().encode()


def write_generated(
    folder: Path, files: Mapping[str, bytes], is_generated: Callable[[str], bool], *, force: bool
) -> WriteOutcome:
    """Write files into a folder, all or none; what an earlier run left there and this one does not have goes.

    Args:
        folder: Where; it is made if its parent exists.
        files: Contents by name, from `signed`.
        is_generated: Whether a file of this name may be left of an earlier run.
        force: Also replace a file that torchferry did not write, that was edited since, or that an editor has open. A
            link is never replaced.

    Raises:
        UsageError: the folder cannot be made or opened.
        TorchferryError: a file is somebody's own work, a link or no file, or cannot be written. Nothing is changed.
    """
    make_folder(folder)
    with exclusive(folder) as tree:
        before = {name: present(tree.top, folder, name) for name in files}
        others = [name for name in tree.top.names() if is_generated(name) and name not in files]
        leftover = {
            name: data
            for name in others
            if (data := present(tree.top, folder, name)) is not None and is_untouched(data) is not None
        }
        if not force:
            there = set(tree.top.names())
            for name, data in [*before.items(), *leftover.items()]:
                if data is not None and data != files.get(name):
                    _refuse_own_work(folder / name, data)
                    _refuse_opened(folder / name, there)
        changed = [Write(name, before[name], data) for name, data in sorted(files.items()) if before[name] != data]
        if changed:
            discard(tree.place, apply(tree, changed, "codegen"))
        for name in leftover:
            tree.top.remove(name)
    unchanged = tuple(sorted(name for name, data in files.items() if before[name] == data))
    return WriteOutcome(tuple(write.path for write in changed), unchanged, tuple(sorted(leftover)))


def make_folder(folder: Path) -> None:
    """Make a folder whose parent exists, where it is not there yet.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            say("cannot make the folder {path}: {error}", path=folder, error=error.strerror or error)
        ) from None


def present(top: Directory, folder: Path, name: str) -> bytes | None:
    """Return what a file holds now; None where there is none.

    Raises:
        TorchferryError: it is a link or no file, or cannot be read.
    """
    try:
        return top.read(name)
    except FileNotFoundError:
        return None
    except WrongKindError:
        raise TorchferryError(
            say("{path} is a link or not a regular file; it is not replaced", path=folder / name),
            say("remove it, or write to another folder"),
        ) from None
    except OSError as error:
        raise TorchferryError(
            say("cannot read {path}: {error}", path=folder / name, error=error.strerror or error)
        ) from None


def _refuse_opened(path: Path, names: set[str]) -> None:
    """Refuse a file that an editor has open: what was written there and not saved would meet another file."""
    for pattern in _LOCKS:
        lock = pattern.format(path.name)
        if lock in names:
            raise TorchferryError(
                say("an editor seems to have {path} open: there is its lock file {lock}", path=path, lock=lock),
                say(
                    "save and close it; if the editor crashed, remove the lock file; --force replaces {name} at once",
                    name=path.name,
                ),
            )


def _refuse_own_work(path: Path, data: bytes) -> None:
    state = is_untouched(data)
    if state:
        return
    problem: Message = (
        say("{path} exists, and torchferry did not write it", path=path)
        if state is None
        else say("{path} was edited since torchferry wrote it", path=path)
    )
    raise TorchferryError(
        problem,
        say("move your code to another folder and name that with --kernels, or replace the file with --force"),
    )
