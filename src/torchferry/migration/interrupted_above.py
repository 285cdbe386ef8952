"""A migration that was interrupted in a folder above a tree, of which it had changed files."""

from __future__ import annotations

import os
from pathlib import Path

from torchferry.core.enclosing_folders import enclosing_folders
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.migration.journal import DONE, FOLDER, readable_journals


def refuse_interrupted_above(real: Path) -> None:
    """Refuse a tree in which a migration of a folder above was interrupted: only a request for that restores it.

    Args:
        real: The real path of the tree.

    Raises:
        TorchferryError: there is one.
    """
    above = enclosing_folders(real)
    next(above)
    for folder in above:
        if not os.path.lexists(folder / FOLDER):
            continue
        unfinished = [journal for journal in readable_journals(folder) if journal.state != DONE]
        if any(journal.touches(folder, real) for journal in unfinished):
            raise TorchferryError(
                say("a migration of {root} was interrupted, and it changed files of {path}", root=folder, path=real),
                say("undo it first: `torchferry undo {root}`", root=folder),
            )
