"""Which accelerators this Python could use: the backends whose plugin is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from torchferry.backends.base import Backend
from torchferry.backends.registry import load, names
from torchferry.core.importable import is_importable


def installed(has: Callable[[str], bool] | None = None) -> list[type[Backend]]:
    """Return the backends whose plugin can be imported, without importing it.

    A plugin that comes with modules of another target's plugin (`Backend.SHADOWS`) hides that one.

    Args:
        has: Whether a top-level module can be imported; None asks Python.
    """
    has = has or is_importable
    present = [backend for backend in map(load, names()) if has(backend.PLUGIN)]
    hidden = {name for backend in present for name in backend.SHADOWS}
    return [backend for backend in present if backend.NAME not in hidden]


def installed_version(backend: type[Backend]) -> str:
    """Return the version of a backend's plugin as the tables know versions; empty where none is to be read.

    What precedes a release counts as that release, and what a builder appended counts for nothing.
    """
    from packaging.version import InvalidVersion, Version  # imported late: few commands ask

    try:
        version = Version(metadata.version(backend.PLUGIN))
    except (metadata.PackageNotFoundError, InvalidVersion):
        return ""
    if not any(version.release):  # a simulated plugin that imitates no version
        return ""
    return version.base_version if version.is_prerelease else version.public
