"""Why a transaction touches nothing: files that have changed since, and journals that are not known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.write_fence import named
from torchferry.migration.journal import Journal


class ConflictError(TorchferryError):
    """Files are not what they should be; `paths` names them."""

    def __init__(self, paths: list[str], advice: Message | None = None, *, read: bool = False) -> None:
        values = {"count": len(paths), "names": named(paths)}
        if read:  # what is to be written was made from another content
            message = say_plural(
                "{count} file has changed since torchferry read it: {names}",
                "{count} files have changed since torchferry read them: {names}",
                **values,
            )
            usual = say("run the command again; nothing was changed")
        else:
            message = say_plural(
                "{count} file has changed since torchferry wrote it: {names}",
                "{count} files have changed since torchferry wrote them: {names}",
                **values,
            )
            usual = say("save those changes elsewhere and restore the files, then try again; nothing was touched")
        super().__init__(message, advice or usual)
        self.paths = paths


class UnknownJournalError(TorchferryError):
    """A journal is not known to be made here by this user."""

    def __init__(self, root: Path, journal: Journal) -> None:
        assert journal.problem is not None
        super().__init__(
            say(
                "journal {number} is not known as yours ({problem}); nothing was touched. It would write {written} and "
                "remove {removed}",
                number=journal.number,
                problem=journal.problem,
                written=_listed([change.path for change in journal.changes if change.before is not None]),
                removed=_listed([change.path for change in journal.changes if change.before is None]),
            ),
            say(
                "if you migrated this tree on another machine, as another user or before it was copied, run "
                "`torchferry undo {root} --trust-journal`; otherwise remove {folder}",
                root=root,
                folder=journal.folder,
            ),
        )


def refuse_changed(root: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Refuse to write new files that were made from contents which are no longer there.

    Args:
        root: The tree.
        contents: Paths of the originals, relative to it, and what was read from them.

    Raises:
        ConflictError: an original has changed since it was read, or has gone.
    """
    changed = [path for path, data in contents if _present(root / path) != data]
    if changed:
        raise ConflictError(changed, read=True)


def _present(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _listed(paths: list[str]) -> Message:
    if not paths:
        # translators: stands for a number of files, in a sentence about what would be written
        return say("no file")
    return say("{count} ({names})", count=len(paths), names=named([repr(path)[1:-1] for path in paths], 20))
