"""What git knows of a tree: whether changes in it are not committed yet."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from torchferry.migration.journal import digest

_SAFELY = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""Settings that keep a tree's own git configuration from starting programs."""


def uncommitted(root: Path) -> list[str]:
    """Return the tracked files below `root` that differ from the last commit, relative to it; none outside git."""
    shown = _git(root, "status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--", ".")
    above = _git(root, "rev-parse", "--show-prefix") if shown else ""
    return [line[3:].removeprefix(above.rstrip("\n")) for line in shown.split("\0") if line]


def _git(root: Path, *arguments: str) -> str:
    """Run git and return what it prints; nothing where it fails."""
    try:
        done = subprocess.run(["git", *_SAFELY, "-C", os.fspath(root), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return os.fsdecode(done.stdout)


def changed_by_others(root: Path, paths: Iterable[str], ours: dict[str, str]) -> list[str]:
    """Leave out the files whose content is what an earlier migration wrote: path to SHA-256 in `ours`."""
    found = []
    for path in paths:
        try:
            current = digest((root / path).read_bytes())
        except OSError:
            current = ""
        if ours.get(path) != current:
            found.append(path)
    return found
