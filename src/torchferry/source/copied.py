"""Where a project keeps its copy of the device manager, which `torchferry device vendor` writes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from torchferry.core.vendored import CHECKSUM, FIRST
from torchferry.source.kinds import Kind
from torchferry.source.tree import Listing


def portable_module(root: Path, listing: Listing) -> str:
    """Return the module that the project's own copy is imported as; empty where it has none.

    Folders count as packages from the topmost one that has an `__init__.py`: what lies in no package is imported by its
    own name, as from a program beside it.
    """
    for entry in sorted(listing.entries, key=lambda entry: (entry.path.count("/"), entry.path)):
        if entry.kind is Kind.PYTHON and _is_copy(root / entry.path):
            path = PurePosixPath(entry.path)
            packages: list[str] = []
            for folder in path.parents:
                if folder == PurePosixPath(".") or not (root / folder / "__init__.py").is_file():
                    break
                packages.insert(0, folder.name)
            return ".".join((*packages, path.stem))
    return ""


def _is_copy(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return all(file.readline().startswith(marked.encode()) for marked in (FIRST, CHECKSUM))
    except OSError:
        return False
