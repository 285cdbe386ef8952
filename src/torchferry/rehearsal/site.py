"""The folder of a session: what child processes find on their path, and where they leave what they saw.

`site/` goes in front of PYTHONPATH. It holds the metadata that the vendor's plugin would have, with the entry point
by which torch loads it, and the one by which torch loads our observer.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path

from torchferry.backends.datafile import data_directory
from torchferry.backends.unknown import UNKNOWN
from torchferry.core import torch_start
from torchferry.core.abandoned import remove_locked
from torchferry.core.errors import TorchferryError
from torchferry.core.temporary import locked_temporary_folder
from torchferry.rehearsal.config import VARIABLE, Rehearsal, keep_given, read
from torchferry.rehearsal.driver.plugin import SUMMARY

_START = '''"""Started by torch in every process of a rehearsal."""


def start():
    try:
        from torchferry.rehearsal import bootstrap
    except ImportError as error:
        import sys

        raise SystemExit(
            f"torchferry: {sys.executable} has no torchferry ({error}); "
            "install it in the environment that runs the command, or the rehearsal would be none"
        )
    bootstrap.start()
'''

_STAND_IN = '''"""Stands in front of the vendor's package: the simulated driver comes first, then the package itself."""

from torchferry.rehearsal.driver.plugin import answer_torch

answer_torch(__name__)

from torchferry.rehearsal.driver import session

session.load(__name__, __file__)
'''


def make(rehearsal: Rehearsal) -> Path:
    """Make a session's folder for this process; it is removed when the process ends."""
    folder, _ = locked_temporary_folder("torchferry-rehearsal-")  # locked until the process and its forks have ended
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child that ends is not the owner
            remove_locked(folder)

    atexit.register(remove)
    fill(folder, rehearsal)
    return folder


def joined(rehearsal: Rehearsal) -> Path | None:
    """Return the folder of the parent's session, when that rehearses the same: what we see is then part of it."""
    folder = os.environ.get(VARIABLE, "")
    try:
        return Path(folder) if folder and read(Path(folder)) == rehearsal else None
    except TorchferryError:
        return None


def fill(folder: Path, rehearsal: Rehearsal) -> None:
    """Write what child processes need."""
    rehearsal.write(folder)
    keep_given(folder)
    site = folder / "site"
    site.mkdir()
    (site / "torchferry_rehearsal_start.py").write_text(_START, encoding="utf-8")
    _distribution(site, "torchferry-rehearsal", "0", "torchferry_rehearsal = torchferry_rehearsal_start:start")
    target = rehearsal.resolved()
    backend = target.backend
    if rehearsal.shipped is not None:
        package = site / backend.PLUGIN
        package.mkdir()
        (package / "__init__.py").write_text(_STAND_IN, encoding="utf-8")
        return  # the plugin has metadata of its own
    autoloads = target.autoloads()
    version = rehearsal.profile.version or "0"
    entry = f"{backend.PLUGIN} = {backend.PLUGIN}:_autoload" if autoloads is True or autoloads is UNKNOWN else ""
    _distribution(site, backend.PLUGIN, version, entry)


def search_path(folder: Path, rehearsal: Rehearsal) -> str:
    """Return PYTHONPATH for a process of the rehearsal: ours, then what it is now."""
    return os.pathsep.join([*paths(folder, rehearsal), *filter(None, [os.environ.get("PYTHONPATH", "")])])


def paths(folder: Path, rehearsal: Rehearsal) -> list[str]:
    """Return what goes in front of PYTHONPATH: the session's folder, then the plugin where it is not installed."""
    backend = rehearsal.resolved().backend
    if rehearsal.shipped is not None:
        return [str(folder / "site"), *filter(None, [rehearsal.shipped.folder]), str(torch_start.SITE)]
    facade = backend.FACADE_DIRECTORY or data_directory(backend) / "plugin"
    return [str(folder / "site"), str(facade), str(torch_start.SITE)]


def _distribution(site: Path, name: str, version: str, entry_point: str) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {SUMMARY}\n", encoding="utf-8"
    )
    if entry_point:
        (folder / "entry_points.txt").write_text(f"[torch.backends]\n{entry_point}\n", encoding="utf-8")
