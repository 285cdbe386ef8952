"""What git knows of a tree: whether changes in it are not committed yet, and whether it holds a journal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.migration.directory import Directory
from torchferry.migration.journal import content_digest
from torchferry.source.git import git, is_in_repository

_SUBMODULE = "160000"
"""The mode by which git's index tells a submodule."""


def uncommitted(root: Path) -> list[str]:
    """Return the tracked files below `root` that differ from the last commit, relative to it; none outside git.

    Raises:
        TorchferryError: git cannot say.
    """
    if not is_in_repository(root):
        return []
    shown = git(
        root,
        *("status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty"),
        *("--", "."),
        reads_contents=True,
    )
    above = git(root, "rev-parse", "--show-prefix") if shown else ""
    if shown is None or above is None:
        raise TorchferryError(
            say("git cannot tell which files of {root} have changes that are not committed", root=root),
            say("run `git -C {root} status` and fix the problem, or use --allow-dirty", root=root),
        )
    paths = [line[3:].removeprefix(above.rstrip("\n")) for line in shown.split("\0") if line]
    for folder in _submodules(root):
        paths += [f"{folder}/{path}" for path in uncommitted(root / folder)]
    return paths


def _submodules(root: Path) -> list[str]:
    """Return the submodules below `root` that are checked out: git's own look into them would run their filters."""
    top = (git(root, "rev-parse", "--show-toplevel") or "").rstrip("\n")
    if not top or not (Path(top) / ".gitmodules").exists():
        return []
    entries = (git(root, "ls-files", "--stage", "-z", "--", ".") or "").split("\0")
    folders = [entry.partition("\t")[2] for entry in entries if entry.startswith(_SUBMODULE)]
    return [folder for folder in folders if not (root / folder).is_symlink() and (root / folder / ".git").exists()]


def changed_by_others(root: Path, paths: Iterable[str], ours: dict[str, str]) -> list[str]:
    """Leave out the files whose content is what an earlier migration wrote: path to SHA-256 in `ours`."""
    with Directory.open(root) as top:
        return [path for path in paths if path not in ours or content_digest(top, path) != ours[path]]
