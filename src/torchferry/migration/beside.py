"""Which files of a tree are the CUDA version of files that a migration wrote beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from torchferry.migration.journal import Journal


def originals(root: Path, journals: Iterable[Journal]) -> tuple[str, ...]:
    """Return the originals of files that `migrate --suffix` wrote, as sorted paths relative to the root.

    A journal does not keep the suffix: it is what most of the files that the migration made have more than a file that
    was there.
    """
    copied: set[str] = set()
    for journal in journals:
        new_files = [change.path for change in journal.changes if change.before is None]
        pairs = [(original, path) for path in new_files for original in _shorter(root, path, new_files)]
        ends = Counter(_difference(original, path) for original, path in pairs)
        if ends:
            suffix = max(ends, key=lambda end: (ends[end], -len(end)))
            copied.update(original for original, path in pairs if _difference(original, path) == suffix)
    return tuple(sorted(copied))


def _shorter(root: Path, path: str, new_files: list[str]) -> list[str]:
    """Return the files that were there whose name is the beginning of a new one's, with the same ending."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    names = (f"{folder}{slash}{stem[:length]}{dot}{ending}" for length in range(1, len(stem)))
    return [other for other in names if other not in new_files and (root / other).is_file()]


def _difference(original: str, path: str) -> str:
    return path.rpartition(".")[0].removeprefix(original.rpartition(".")[0])
