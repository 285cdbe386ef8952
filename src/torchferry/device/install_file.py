"""Put the single file into a project's folder: never over somebody's own work, never outside, never by half."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from torchferry.core import system
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.core.system import HeldFolder
from torchferry.core.vendored import untouched
from torchferry.core.write_fence import require_in_roots


def install_file(folder: Path, name: str, text: str, *, force: bool) -> bool:
    """Write `folder/name` in one step; False when it is there already, byte for byte.

    The folder is opened once and all goes by its handle, so that no link that appears meanwhile leads elsewhere.

    Args:
        folder: A folder that exists.
        name: Name of the file, a module's.
        text: Its content.
        force: Also replace a file that torchferry did not write, or that was edited since. A link is never replaced.

    Raises:
        UsageError: the name is no module's, or there is no such folder.
        TorchferryError: the file is somebody's own, a link or no file, or it cannot be written.
    """
    stem, dot, suffix = name.rpartition(".")
    if not (dot and suffix == "py" and stem.isidentifier()):
        raise UsageError(say("`{name}` is not a valid module name; write one such as {example}", name=name,
                             example="device_utils.py"))  # fmt: skip
    require_in_roots(folder / name)
    try:
        handle = system.open_folder(folder, follow=True)
    except OSError as error:
        raise UsageError(say("cannot open the folder {path}: {error}", path=folder, error=error.strerror)) from None
    try:
        return _write(handle, folder / name, text.encode(), force)
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=folder / name, error=error.strerror)) from None
    finally:
        handle.close()


def _write(handle: HeldFolder, path: Path, content: bytes, force: bool) -> bool:
    present = _present(handle, path)
    if present == content:
        return False
    if present is not None and not force:
        _refuse_own_work(path, present)
    mode = 0o644
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(handle.status(path.name).st_mode)
    temporary = f".{path.name}.{secrets.token_hex(8)}"
    file = handle.open(temporary, system.NEW, mode)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        handle.replace(temporary, handle, path.name)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            handle.remove(temporary)
        raise
    system.sync_names(handle)
    return True


def _present(handle: HeldFolder, path: Path) -> bytes | None:
    """Return what the file holds now; None where there is none.

    Raises:
        TorchferryError: it is a link or no file.
    """
    try:
        file = handle.open(path.name, system.READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TorchferryError(
                say("{path} is a link, and files outside the folder are never written", path=path),
                say("remove the link, or choose another name with --name"),
            ) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise TorchferryError(say("{path} is not a file", path=path))
    with os.fdopen(file, "rb") as opened:
        return opened.read()


def _refuse_own_work(path: Path, present: bytes) -> None:
    is_untouched = untouched(present.decode("utf-8", "replace"))
    if is_untouched is None:
        raise TorchferryError(
            say("{path} exists, and torchferry did not write it", path=path),
            say("choose another name with --name, or replace it with --force"),
        )
    if not is_untouched:
        raise TorchferryError(
            say("{path} was edited since torchferry wrote it", path=path),
            say("keep your changes elsewhere, or replace it with --force"),
        )
