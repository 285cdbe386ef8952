"""How a journal is known to be made here by this user.

A tree can bring a journal along, from a clone or an archive, and what a journal says is done to files. So each journal
is signed with a key that lies in the user's own state folder and never in a tree: one signature is for the tree's path,
the other for its device and inode. One that fits is enough, so that a tree may be moved, or a disk mounted anew; a copy
fits neither.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from torchferry.core import env, system
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.migration.directory import Directory, WrongKindError

_KEY = "journal.key"
_SIZE = 32


class Signer(NamedTuple):
    """What makes and checks the signatures of one tree's journals.

    Attributes:
        key: The user's key; None where there is none.
        missing: Why there is none.
        places: What tells the tree from others: its path, and its device and inode.
    """

    key: bytes | None
    missing: Message | None
    places: dict[str, str]

    def signatures(self, document: dict[str, Any]) -> dict[str, str]:
        """Return the signatures of a manifest; none without a key."""
        if self.key is None:
            return {}
        return {name: _signature(self.key, document, f"{name} {place}") for name, place in self.places.items()}

    def problem(self, document: dict[str, Any], signatures: object) -> Message | None:
        """Return why a manifest is not known as this user's; None where it is."""
        if not isinstance(signatures, dict) or not signatures:
            return say("it has no signature")
        if self.key is None:
            return self.missing
        import hmac  # imported late, as below: a first migration asks for it while files are examined

        for name, signature in self.signatures(document).items():
            given = signatures.get(name)
            if isinstance(given, str) and given.isascii() and hmac.compare_digest(given, signature):
                return None
        return say("its signature is not yours, or belongs to another folder")


def signer(root: Path, top: Directory, create: bool = False) -> Signer:
    """Return what signs the journals of a tree; a missing key of the user's is made where `create` says so."""
    device, inode = top.identity()
    path = os.path.realpath(root)
    places = {"path": path, "inode": f"{device} {inode}"}
    folder = env.state_folder()
    if folder is None:
        return Signer(None, say("there is no home folder in which your key could be kept"), places)
    if os.path.commonpath([path, os.path.realpath(folder)]) == path:
        return Signer(None, say("{folder}, where your key is kept, is part of the tree", folder=folder), places)
    try:
        return Signer(_key(folder, create), None, places)
    except OSError as error:
        reason = say("your key in {folder} cannot be used: {error}", folder=folder, error=error.strerror)
        return Signer(None, reason, places)


def _signature(key: bytes, document: dict[str, Any], place: str) -> str:
    import hmac

    text = json.dumps([place, document], sort_keys=True)
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def _key(folder: Path, create: bool) -> bytes:
    """Return the user's key.

    Raises:
        OSError: it is missing or cannot be made, or others can read or write it, so that it proves nothing.
    """
    if create:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Directory.open(folder) as place:
        try:
            return _read_key(place)
        except FileNotFoundError:
            if not create:
                raise
        new = f"{_KEY}.{os.urandom(8).hex()}"
        place.create(new, os.urandom(_SIZE))
        try:  # a link, since it takes no other's place: of two runs at once both use the key of the first
            place.held.link(new, _KEY)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            place.replace(new, place, _KEY)
        finally:
            place.remove(new)
        place.sync()
        return _read_key(place)


def _read_key(place: Directory) -> bytes:
    status = place.status(_KEY)
    if not stat.S_ISREG(status.st_mode) or status.st_size != _SIZE:
        raise WrongKindError(place.path / _KEY)
    if not system.is_own(status) or system.is_open_to(status, 0o077):
        raise PermissionError(errno.EPERM, "it is another user's, or others can read it", str(place.path / _KEY))
    return place.read(_KEY, _SIZE)
