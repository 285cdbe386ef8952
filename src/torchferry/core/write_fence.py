"""May this path be written, restored or deleted by this request?

A request names paths; what it does to files comes from elsewhere: a journal, a list of files, a setting. So the effects
are examined and not the arguments: the real path of every file, when it is about to change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from torchferry.core import env
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple

_MOST = 5
"""Files that a message names."""


class OutsideRequestError(TorchferryError):
    """A request would write, restore or delete files that it may not; `paths` names them."""

    def __init__(self, paths: list[Path], advice: Message) -> None:
        super().__init__(
            say_plural(
                "{count} file is outside of what this request may change: {names}; nothing was touched",
                "{count} files are outside of what this request may change: {names}; nothing was touched",
                count=len(paths),
                names=named(map(str, paths)),
            ),
            advice,
        )
        self.paths = paths


class WriteFence(NamedTuple):
    """What one request may change. All paths are real ones, and each represents what is below it, too.

    Attributes:
        asked: Files and folders that the request names: there it may write, restore and delete.
        new_below: Folders in which it may also make new files, but change none that is there.
        roots: Folders that the one who started torchferry for somebody else allows, such as `--root` of `mcp`; None
            where there is no such limit.
    """

    asked: tuple[str, ...]
    new_below: tuple[str, ...] = ()
    roots: tuple[str, ...] | None = None

    @classmethod
    def around(cls, *asked: Path, new_below: Iterable[Path] = ()) -> WriteFence:
        """Return the fence of a request that names some paths; links on the way to them are the user's own."""
        return cls(tuple(map(os.path.realpath, asked)), tuple(map(os.path.realpath, new_below)), env.write_roots())

    def permits(self, path: Path) -> bool:
        """Whether the request may write, restore or delete a real path."""
        return _is_below(path, self.asked) and (self.roots is None or _is_below(path, self.roots))

    def require(self, paths: Iterable[Path], advice: Message, new: Iterable[Path] = ()) -> None:
        """Refuse paths that the request may not write, restore or delete.

        Args:
            paths: Real paths of files that are there and would change or go.
            advice: What to do where one is refused.
            new: Real paths of files that would be made.

        Raises:
            OutsideRequestError: one of them may not change.
        """
        present, created = list(paths), list(new)
        self.require_in_roots([*present, *created])
        refused = [path for path in present if not _is_below(path, self.asked)]
        refused += [path for path in created if not _is_below(path, (*self.asked, *self.new_below))]
        if refused:
            raise OutsideRequestError(sorted(refused), advice)

    def require_in_roots(self, paths: Iterable[Path]) -> None:
        """Refuse real paths outside of the folders that the one who started torchferry allows.

        Raises:
            OutsideRequestError: one is outside.
        """
        roots = self.roots
        if roots is None:
            return
        refused = sorted(path for path in paths if not _is_below(path, roots))
        if refused:
            folders = ", ".join(roots) or say("no folder")
            raise OutsideRequestError(
                refused,
                say(
                    "files may be changed only in: {folders} (`--root` of `torchferry mcp`, or TORCHFERRY_WRITE_ROOTS)",
                    folders=folders,
                ),
            )


def require_in_roots(*paths: Path) -> None:
    """Refuse paths that a command is about to write where the one who started torchferry does not allow it.

    Raises:
        OutsideRequestError: one is outside.
    """
    WriteFence((), (), env.write_roots()).require_in_roots(Path(os.path.realpath(path)) for path in paths)


def named(names: Iterable[str], most: int = _MOST) -> str:
    """Return the first names of a list, and how many more there are; printing escapes what is not printable."""
    every = list(names)
    return ", ".join(every[:most]) + (f" (+{len(every) - most})" if len(every) > most else "")


def _is_below(path: Path, folders: Iterable[str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
