"""What a plugin says when it does not load, and whether that is because it belongs to another torch."""

from __future__ import annotations

from collections.abc import Callable

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from torchferry.backends.base import Backend
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say


def explained(backend: type[Backend], version: str, torch_version: str, load: Callable[[], None]) -> None:
    """Load a plugin; where it fails and is not of this torch, say so after the plugin's own words.

    Raises:
        TorchferryError: the plugin is for another torch.
        Exception: whatever else the plugin raises.
    """
    try:
        load()
    except Exception as error:
        if belongs(version, torch_version):
            raise
        raise TorchferryError(
            say(
                "{plugin} {version} does not load with torch {torch}: {error}",
                plugin=backend.PLUGIN,
                version=version,
                torch=torch_version,
                error=(str(error).splitlines() or [type(error).__name__])[0],
            ),
            what_fits(backend, version, torch_version),
        ) from error


def belongs(plugin: str, torch_version: str) -> bool:
    """Whether a plugin's version is for a torch: they have the same numbers, and what follows those does not matter."""
    try:
        return Version(plugin).release == Version(torch_version).release
    except InvalidVersion:
        return True  # nobody can tell


def may_load(plugin: str, torch_version: str) -> bool:
    """Whether a plugin is worth a try with a torch: the first two numbers are the same, or nobody can tell.

    A plugin's library is compiled against the C++ of one minor version, which the next one changes.
    """
    try:
        return Version(plugin).release[:2] == Version(torch_version).release[:2]
    except InvalidVersion:
        return True


def what_fits(backend: type[Backend], plugin: str, torch_version: str) -> Message:
    """Return what to install, by the vendor's table: the plugin for this torch, or else the torch for this plugin."""
    fitting = Target(backend).for_torch(torch_version).version
    if fitting and belongs(fitting, torch_version):
        return say(
            "for torch {torch} install {package}=={fitting}",
            torch=Version(torch_version).public,
            package=canonicalize_name(backend.PLUGIN),
            fitting=fitting,
        )
    return say(
        "no plugin for torch {torch} is known; {plugin} {version} is for torch {wanted}",
        torch=Version(torch_version).public,
        plugin=backend.PLUGIN,
        version=plugin,
        wanted=".".join(map(str, Version(plugin).release)),
    )
