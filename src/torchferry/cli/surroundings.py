"""The project around files that are named on the command line: what a program imports lies beside it, or above."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from torchferry.core import config
from torchferry.source.git import repository_of

_BUILDS = ("pyproject.toml", "setup.py", "setup.cfg")
_TOPS = ("requirements.txt", "environment.yml", "environment.yaml", "LICENSE", "LICENSE.txt", "LICENSE.md")
"""Files that lie in the uppermost folder of a project, where nothing better says which that is."""

_MOST_FOLDERS = 16
"""Folders above a file that are looked at."""


def project_around(folder: Path) -> Path:
    """Return the folder of the project that a folder belongs to, in the form in which the folder was named.

    That is, the first that there is: the folder of the settings file, the work tree of git, the nearest folder with a
    build script, the nearest with requirements or a licence, and the folder that holds the package.

    Raises:
        UsageError: a folder on the way cannot be read.
    """
    here = Path(os.path.abspath(folder))
    around = [place for place in (here, *here.parents)[:_MOST_FOLDERS] if _may_be_a_project(place)]
    settings = config.find(here)
    chosen = (settings.parent if settings is not None else None, repository_of(here))
    found = next((place for place in chosen if place in around), None)
    found = found or _with_one_of(_BUILDS, around) or _with_one_of(_TOPS, around) or _above_packages(here, around)
    if found == here:
        return folder
    return found if folder.is_absolute() else Path(os.path.relpath(found))


def _may_be_a_project(folder: Path) -> bool:
    """Whether a folder may be somebody's project: not a home, nor one in which everybody writes, as /tmp."""
    if folder in (Path(folder.anchor), Path.home()):
        return False
    try:
        return not os.lstat(folder).st_mode & stat.S_IWOTH
    except OSError:
        return False


def _with_one_of(names: Iterable[str], folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if any((folder / name).is_file() for name in names)), None)


def _above_packages(here: Path, around: list[Path]) -> Path:
    for folder in around:
        if not (folder / "__init__.py").is_file():
            return folder
    return here
