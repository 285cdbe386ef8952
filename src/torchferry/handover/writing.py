"""Write a hand-over into its own folder: whole, or not at all, and never over what was not written here."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from torchferry.core import system
from torchferry.core.errors import TorchferryError
from torchferry.core.folders import walk
from torchferry.core.messages import Message, say
from torchferry.core.progress import counted
from torchferry.core.staging import staged_folder
from torchferry.core.write_fence import require_in_roots
from torchferry.handover.preparing import PreparedHandover
from torchferry.handover.record import NAME, HandoverRecord, read_record
from torchferry.migration.directory import Directory
from torchferry.migration.journal import digest
from torchferry.migration.signing import Signer, signer

_MOST = 5


def write_handover(prepared: PreparedHandover, out: Path) -> None:
    """Write a hand-over.

    The folder appears under its name when it is complete. One that an earlier hand-over wrote, and nobody has changed
    since, is replaced.

    Args:
        prepared: The hand-over.
        out: Its folder.

    Raises:
        TorchferryError: the folder holds something else, or cannot be written.
    """
    require_in_roots(out)
    try:
        with staged_folder(out, lambda: _check(out), _remove) as folder:
            for file in counted(say("writing files"), prepared.files):
                path = folder / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = system.open_file(path, system.NEW)
                with os.fdopen(descriptor, "wb") as opened:
                    opened.write(file.data)
                    system.set_mode(opened.fileno(), file.mode)
            _sign(folder, out, prepared.record)
    except OSError as error:
        raise _unwritable(out, error) from None


def _signer(folder: Path, out: Path, create: bool = False) -> Signer:
    """Return what signs the record of a hand-over: for the path it is to have, and the inode that it keeps.

    Both must fit, and not one of them as for a journal: an inode is soon another folder's.
    """
    with Directory.open(folder) as top:
        device, inode = top.identity()
        return signer(folder, top, create)._replace(places={"place": f"{os.path.realpath(out)} {device} {inode}"})


def _sign(folder: Path, out: Path, record: HandoverRecord) -> None:
    """Write the record of a hand-over in `folder`, which becomes `out`."""
    document = record.document()
    signatures = _signer(folder, out, create=True).signatures(document)
    text = json.dumps({**document, "signatures": signatures}, indent=1) + "\n"  # ASCII: a name may be no UTF-8
    (folder / NAME).write_bytes(text.encode("ascii"))


def _check(out: Path) -> None:
    """Refuse a folder that is there, and is neither empty nor a hand-over as it was written.

    Raises:
        TorchferryError: it holds something else, or was changed.
    """
    if not os.path.lexists(out):
        return
    if out.is_symlink() or not out.is_dir():
        raise _refused(out, say("it is not a folder"))
    present = dict(_files(out))
    if not present:
        return
    read = read_record(out)
    if read is None:
        raise _refused(out, say("torchferry did not write it"))
    record, document = read
    signatures = document.pop("signatures", None)
    problem = _signer(out, out).problem(document, signatures)
    if problem is not None:
        raise _refused(out, problem)
    recorded = {file.path: file.sha256 for file in record.files}
    changed = sorted(
        {path for path in recorded.keys() | present.keys() if recorded.get(path) != present.get(path)} - {NAME}
    )
    if changed:
        named = ", ".join(changed[:_MOST]) + (f" (+{len(changed) - _MOST})" if len(changed) > _MOST else "")
        raise _refused(out, say("these files were changed since it was written: {names}", names=named))


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield every file below a folder with its SHA-256; what is no regular file has none."""
    for top, _, names in walk(folder):
        for name in names:
            full = os.path.join(top, name)
            path = os.path.relpath(full, folder).replace(os.sep, "/")
            is_file = stat.S_ISREG(os.lstat(full).st_mode)
            yield path, digest(Path(full).read_bytes()) if is_file else ""


def _remove(old: Path) -> None:
    """Remove a hand-over that was replaced; what somebody put there at the last moment stays, and is an error."""
    read = read_record(old)
    assert read is not None  # it was there when all was checked
    with Directory.open(old) as top:
        for path in (*(file.path for file in read[0].files), NAME):
            with top.parent(path) as parent:
                parent.remove(path.rpartition("/")[2])
    for folder in reversed([folder for folder, _, _ in walk(old)]):
        os.rmdir(folder)


def _refused(out: Path, reason: Message) -> TorchferryError:
    return TorchferryError(
        say("`{out}` already exists: {reason}", out=out, reason=reason),
        say("name another folder with --out, or move it away; nothing was touched"),
    )


def _unwritable(out: Path, error: OSError) -> TorchferryError:
    return TorchferryError(say("cannot write {path}: {error}", path=out, error=error.strerror or error))
