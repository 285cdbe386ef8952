"""What an undo takes back: the migrations that changed something below the path that it is asked for.

Their journals are looked for in the folder itself and above it up to the top of its project, and nowhere else: one in a
folder that is no part of the project belongs to other work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from torchferry.core.config import project_root
from torchferry.core.enclosing_folders import enclosing_folders
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.migration.journal import DONE, FOLDER, Journal, journals, readable_journals

_MOST_ENTRIES = 1_000
"""Of a folder that is looked through for a better advice."""


class NotRecordedError(TorchferryError):
    """No migration is recorded that changed something there."""


class UndoPlan(NamedTuple):
    """The journals that an undo takes back.

    Attributes:
        root: The folder that they are in, as the user named it where it is the one that was named.
        asked: The real path that was named.
        is_above: Whether the folder lies above what was named.
        chosen: The journals, the first to be taken back last.
    """

    root: Path
    asked: Path
    is_above: bool
    chosen: tuple[Journal, ...]

    @property
    def effects(self) -> list[Path]:
        """The real paths of all files that will be restored or removed."""
        real = Path(os.path.realpath(self.root))
        return sorted({real / change.path for journal in self.chosen for change in journal.changes})

    @property
    def outside(self) -> list[str]:
        """Those outside of the path that was named, relative to the folder of the journals."""
        real = Path(os.path.realpath(self.root))
        return [str(path.relative_to(real)) for path in self.effects if not path.is_relative_to(self.asked)]


def plan_undo(path: Path, everything: bool = False) -> UndoPlan:
    """Return what an undo of a folder or file takes back.

    Args:
        path: It.
        everything: Whether all migrations are taken back, and not the last one alone.

    Raises:
        NotRecordedError: no migration of the project changed anything there.
        TorchferryError: its journals cannot be read.
    """
    asked = Path(os.path.realpath(path))
    folder = path if path.is_dir() else path.parent
    real = Path(os.path.realpath(folder))
    top = project_root(real) or real
    elsewhere: list[Path] = []
    for place in enclosing_folders(real):
        if _has_journals(place):
            shown = folder if place == real else place
            chosen = choose(journals(shown), place, asked, everything)
            if chosen:
                return UndoPlan(shown, asked, place != real, chosen)
            if place != asked:
                elsewhere.append(place)
        if place == top:
            break
    raise NotRecordedError(say("no migration is recorded in {path}", path=path), _advice(asked, real, elsewhere))


def choose(recorded: Sequence[Journal], root: Path, asked: Path, everything: bool) -> tuple[Journal, ...]:
    """Return the journals of a folder that an undo takes back: what was interrupted, else the last that changed
    something below the path, or all of these.
    """
    touching = [journal for journal in recorded if root == asked or journal.touches(root, asked)]
    unfinished = tuple(journal for journal in touching if journal.state != DONE)
    finished = tuple(journal for journal in touching if journal.state == DONE)
    if everything:
        return finished + unfinished
    return unfinished or finished[-1:]


def _has_journals(place: Path) -> bool:
    """Whether a folder has journals of migrations, or something in their place that is refused."""
    return os.path.lexists(place / FOLDER / "journal") or (place / FOLDER).is_symlink()


def _advice(asked: Path, folder: Path, elsewhere: Iterable[Path]) -> Message:
    """Say where the user may have meant; nothing is taken back there."""
    for place in (*folder.parents, *_folders_in(folder), *_folders_in(folder.parent)):
        if os.path.lexists(place / FOLDER) and any(each.touches(place, asked) for each in readable_journals(place)):
            return say("`torchferry undo {root}` undoes a migration that is recorded there", root=place)
    for place in elsewhere:
        return say(
            "the migrations of {root} changed other files; `torchferry undo {root}` undoes the last one", root=place
        )
    return say("a copy (`--out`) is undone by removing it, a patch by `git apply -R`")


def _folders_in(place: Path) -> list[Path]:
    """Return the folders in a folder, such as the outputs of ports in it or beside it; none where there are many."""
    try:
        with os.scandir(place) as entries:
            listed = list(islice(entries, _MOST_ENTRIES + 1))
    except OSError:
        return []
    if len(listed) > _MOST_ENTRIES:
        return []
    return sorted(Path(entry.path) for entry in listed if entry.is_dir(follow_symlinks=False))
