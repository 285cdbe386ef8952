"""A migration into a copy: the tree as it is, with the rewritten files in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.migration.transaction import Write

_LEFT_OUT = frozenset({".git", ".hg", ".svn", ".torchferry"})


def write_copy(root: Path, out: Path, writes: Iterable[Write]) -> None:
    """Copy the tree to `out` and write the rewritten files there.

    The copy appears under its name only when it is complete. Links are copied as links; what a link in the tree
    points to is not.

    Raises:
        TorchferryError: `out` exists and is not an empty folder, or it cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TorchferryError(
            say("`{out}` exists already", out=out), say("name a folder that does not exist or is empty")
        )
    partial = out.with_name(f".{out.name}.torchferry")
    shutil.rmtree(partial, ignore_errors=True)
    skipped = {os.path.realpath(out), os.path.realpath(partial)}

    def leave_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in _LEFT_OUT or os.path.realpath(os.path.join(folder, name)) in skipped}

    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(root, partial, symlinks=True, ignore=leave_out)
        for write in writes:
            path = partial / write.path
            if path.is_symlink():
                path.unlink()
            mode = path.stat().st_mode if path.exists() else write.mode
            path.unlink(missing_ok=True)  # a copied file keeps its mode, which may forbid writing
            path.write_bytes(write.after)
            path.chmod(mode & 0o7777)
        if out.exists():
            out.rmdir()
        os.replace(partial, out)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TorchferryError(say("cannot write the copy {out}: {error}", out=out, error=reason)) from None
