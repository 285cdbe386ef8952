"""The folders that an assistant may name: a path that leads out of them is refused, by whatever way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say


class Roots:
    """Folders, links followed. What lies in them may be named, and nothing else."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Take the folders.

        Raises:
            UsageError: one is no folder.
        """
        self.folders = tuple(dict.fromkeys(Path(folder).resolve() for folder in folders))
        for folder in self.folders:
            if not folder.is_dir():
                raise UsageError(say("{path} is not a folder", path=folder))

    def place(self, text: str) -> Path:
        """Return a path that an assistant names; one that is relative begins at the first folder.

        Raises:
            TorchferryError: it does not exist, or leads out of the folders.
        """
        place = self.new_place(text)
        try:
            exists = place.exists()
        except OSError as error:
            raise _unreadable(text, error) from None
        if not exists:
            raise TorchferryError(say("{path} does not exist", path=text[:200]))
        return place

    def new_place(self, text: str) -> Path:
        """Return a path that an assistant names for what a command is to write.

        Raises:
            TorchferryError: it leads out of the folders.
        """
        if "\0" in text:
            raise TorchferryError(say("a path contains a null character"))
        try:
            place = (self.folders[0] / text).resolve()
        except (OSError, RuntimeError) as error:
            raise _unreadable(text, error) from None
        if not any(place.is_relative_to(folder) for folder in self.folders):
            folders = ", ".join(map(str, self.folders))
            raise TorchferryError(
                say(
                    "{path} is outside of the folders that this server may read: {folders}",
                    path=text[:200],
                    folders=folders,
                ),
                say("start the server with `--root` for another folder"),
            )
        return place


def _unreadable(text: str, error: OSError | RuntimeError) -> TorchferryError:
    reason = error.strerror if isinstance(error, OSError) else error
    return TorchferryError(say("{path} cannot be read: {error}", path=text[:200], error=reason))
