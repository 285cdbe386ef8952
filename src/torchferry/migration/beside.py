"""Which files of a tree are the CUDA version of files that a migration wrote beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torchferry.migration.journal import Journal


def originals(root: Path, journals: Iterable[Journal]) -> tuple[str, ...]:
    """Return the originals of files that `migrate --suffix` wrote, as sorted paths relative to the root."""
    return tuple(
        sorted(
            original
            for journal in journals
            if journal.suffix
            for change in journal.changes
            if change.before is None and (original := _original(change.path, journal.suffix))
            if (root / original).is_file()
        )
    )


def _original(path: str, suffix: str) -> str:
    """Return the path without the suffix, which precedes the last dot; empty where there is none."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".") if "." in name[1:] else (name, "", "")
    if stem == suffix or not stem.endswith(suffix):
        return ""
    return f"{folder}{slash}{stem.removesuffix(suffix)}{dot}{ending}"
