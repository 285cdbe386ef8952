"""An output folder is written beside its place and takes it when it is whole; what a killed run left there is cleared.

The folder beside it, `.NAME.xxxxxxxx.torchferry`, belongs to one process: it is closed to others, and locked until the
process ends, however it ends. It holds `new`, which becomes the output, and for a moment `old`, the output before. A
run that was killed between the two moves has left no output; whoever comes next puts the old one back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torchferry.core import system
from torchferry.core.abandoned import abandoned, locked_folder, release_and_remove, remove_locked, remove_unfinished
from torchferry.core.errors import TorchferryError
from torchferry.core.folders import remove_tree
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple

_SUFFIX = ".torchferry"
_NAME = lazy_regex(r"(?s)\.(?P<output>.+)\.[a-z0-9_]{8}\.torchferry\Z")
_NEW, _OLD = "new", "old"


class LeftOver(NamedTuple):
    """What a killed run left beside an output.

    Attributes:
        path: The folder.
        output: The output that it was for.
        restored: Whether it held the output as it was before, which is in its place again.
    """

    path: Path
    output: Path
    restored: bool = False


@contextmanager
def staged_folder(out: Path, check: Callable[[], None], remove: Callable[[Path], None] = remove_tree) -> Iterator[Path]:
    """Yield a new folder that takes the place of `out` when the block ends; after an error nothing of it is left.

    Args:
        out: The output; the folders above it are made.
        check: Raises where there is something at `out` that may not be replaced. It is asked first, and again when all
            is written, which may be hours later.
        remove: Removes the output that was replaced, from where it was moved to.

    Raises:
        OSError: the folder cannot be written.
        TorchferryError: somebody put a file into the output while it was replaced.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    clear_left_over(out)
    check()
    holder, lock = locked_folder(out.parent, f".{out.name}.", _SUFFIX)
    try:
        new = holder / _NEW
        new.mkdir()
        new.chmod(0o755)
        yield new
        with _one_at_a_time(out.parent):
            check()
            _put_in_place(new, out, holder / _OLD)
        if (holder / _OLD).exists():
            _remove_old(holder, out, remove)
    finally:
        release_and_remove(holder, lock)


def _remove_old(holder: Path, out: Path, remove: Callable[[Path], None]) -> None:
    try:
        remove(holder / _OLD)
    except OSError:
        rescued = out.with_name(f"{out.name}{holder.name.removeprefix(f'.{out.name}').removesuffix(_SUFFIX)}")
        os.rename(holder / _OLD, rescued)
        raise TorchferryError(
            say(
                "{out} was replaced, and files that somebody put into it meanwhile are in {kept}", out=out, kept=rescued
            )
        ) from None


def clear_left_over(out: Path) -> list[LeftOver]:
    """Remove what killed runs left beside an output, and put back the output that one of them had moved away."""
    return [cleared for left in left_over(out.parent) if left.output == out and (cleared := clear(left)) is not None]


def is_staging_name(name: str) -> bool:
    """Whether a name is that of a folder in which an output is written."""
    return name.endswith(_SUFFIX) and _NAME.match(name) is not None


def left_over(folder: Path) -> list[LeftOver]:
    """Return what by its name was left in a folder by runs that write outputs there; some of them may still run."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    matches = ((name, _NAME.match(name)) for name in names if name.endswith(_SUFFIX))
    return [LeftOver(folder / name, folder / match["output"]) for name, match in matches if match is not None]


def clear(left: LeftOver) -> LeftOver | None:
    """Remove it where it is certainly ours and whoever made it has ended; None where it stays."""
    remove_unfinished(left.path)
    with _one_at_a_time(left.path.parent), abandoned(left.path) as ours:
        if not ours:
            return None if os.path.lexists(left.path) else left
        old = left.path / _OLD
        restored = old.is_dir() and not old.is_symlink() and not os.path.lexists(left.output)
        if restored:
            os.rename(old, left.output)
        remove_locked(left.path)
    return None if os.path.lexists(left.path) else left._replace(restored=restored)


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until no other run moves an output into place in a folder."""
    with system.folder_locked(folder):
        yield


def _put_in_place(new: Path, out: Path, old: Path) -> None:
    if os.path.lexists(out):
        try:
            os.rmdir(out)
        except OSError:
            os.rename(out, old)
    try:
        os.rename(new, out)
    except OSError:
        if old.exists():
            os.rename(old, out)
        raise
