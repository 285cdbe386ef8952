"""The journal of a migration: what every file was, so that every byte can be put back.

`<root>/.torchferry/journal/0001/` holds `manifest.json`, `before.bin` (the old contents, one behind the other) and,
until they are moved into place, the new contents in `after/`. The folder appears under its name only when all of it is
on the disk; from then on the migration can be finished or taken back, whatever happens.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say

FOLDER = ".torchferry"
SCHEMA = 1

APPLYING = "applying"
DONE = "done"
UNDOING = "undoing"


@dataclass(frozen=True)
class Change:
    """One file of a migration.

    Attributes:
        path: Path relative to the root, with `/`.
        before: SHA-256 of the old content; None for a file that the migration makes.
        after: SHA-256 of the new content.
        offset: Where the old content stands in `before.bin`.
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


@dataclass(frozen=True)
class Journal:
    """A migration as the journal has it.

    Attributes:
        folder: Its folder.
        state: `applying`, `done` or `undoing`.
        target: The target, as `NAME` or `NAME@VERSION`.
        torchferry: The version that wrote it.
        created: When, in ISO 8601 with time zone.
        changes: The files.
    """

    folder: Path
    state: str
    target: str
    torchferry: str
    created: str
    changes: tuple[Change, ...]

    @property
    def number(self) -> str:
        """The journal's number, which is its folder's name."""
        return self.folder.name

    def before(self, change: Change) -> bytes:
        """Return the old content of a file.

        Raises:
            TorchferryError: the journal is damaged.
        """
        with open(self.folder / "before.bin", "rb") as file:
            file.seek(change.offset)
            data = file.read(change.size)
        if digest(data) != change.before:
            raise TorchferryError(
                say(
                    "journal {number} is damaged: the old content of {path} is not what it was",
                    number=self.number,
                    path=change.path,
                )
            )
        return data

    def with_state(self, state: str) -> Journal:
        """Write a new state to the disk and return the journal with it."""
        changed = replace(self, state=state)
        write_durably(self.folder / "manifest.json", changed.manifest())
        return changed

    def manifest(self) -> bytes:
        """Return the manifest as it stands in the file."""
        document = {
            "schema": SCHEMA,
            "state": self.state,
            "target": self.target,
            "torchferry": self.torchferry,
            "created": self.created,
            "changes": [asdict(change) for change in self.changes],
        }
        return json.dumps(document, indent=1).encode()


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file's content so that after a power cut it is the old or the new one, never a part."""
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def control_folder(root: Path, create: bool = False) -> Path | None:
    """Return `<root>/.torchferry`, or None when there is none and it is not to be made.

    Raises:
        TorchferryError: it is a link or no folder, so what it holds cannot be trusted, or it cannot be made.
    """
    folder = root / FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise TorchferryError(
            say("`{path}` is not a folder of torchferry's own", path=folder), say("move it away and try again")
        )
    if not folder.exists():
        if not create:
            return None
        try:
            folder.mkdir(exist_ok=True)  # another run may be making it at this moment
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise TorchferryError(
                say("cannot write in {root}: {error}", root=root, error=error.strerror),
                say("use `--out DIR` to write a copy elsewhere"),
            ) from None
    return folder


def journals(root: Path) -> list[Journal]:
    """Return the journals of a tree, oldest first.

    Raises:
        TorchferryError: a manifest cannot be read, or names a path outside the tree.
    """
    control = control_folder(root)
    if control is None or not (control / "journal").is_dir():
        return []
    return [_read(folder) for folder in sorted((control / "journal").iterdir()) if folder.name.isdigit()]


def _read(folder: Path) -> Journal:
    try:
        document: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
        if document["schema"] != SCHEMA:
            raise TorchferryError(
                say(
                    "journal {number} was written by torchferry {version}",
                    number=folder.name,
                    version=document["torchferry"],
                ),
                say("undo with that version"),
            )
        changes = tuple(Change(**entry) for entry in document["changes"])
        journal = Journal(
            folder, document["state"], document["target"], document["torchferry"], document["created"], changes
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TorchferryError(
            say("journal {number} cannot be read: {error}", number=folder.name, error=error),
            say("its old contents are in {path}", path=folder / "before.bin"),
        ) from None
    for change in changes:
        parts = change.path.split("/")
        if change.path.startswith("/") or ".." in parts or "" in parts or FOLDER in parts:
            raise TorchferryError(say("journal {number} names a path outside the tree", number=folder.name))
    return journal


def discard(journal: Journal) -> None:
    """Remove a journal that is not needed any more; half removed, it is not taken for one."""
    gone = journal.folder.with_name(journal.folder.name + ".gone")
    os.replace(journal.folder, gone)
    shutil.rmtree(gone, ignore_errors=True)
