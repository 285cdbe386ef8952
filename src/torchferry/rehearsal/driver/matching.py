"""What a plugin says when it does not load, and whether that is because it belongs to another torch."""

from __future__ import annotations

from collections.abc import Callable

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from torchferry.backends.base import Backend
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say

_ABSENT = ("undefined symbol", "cannot open shared object file")
"""What the dynamic loader says of a name that no library has, and of a library that is not there."""


def explained(backend: type[Backend], version: str, torch_version: str, load: Callable[[], None]) -> None:
    """Load a plugin; where it fails and it is clear why, say so after the plugin's own words.

    Raises:
        TorchferryError: the plugin is for another torch, or nobody has a library or an entry point that it asks for.
        Exception: whatever else the plugin raises.
    """
    try:
        load()
    except Exception as error:
        words = (str(error).splitlines() or [type(error).__name__])[0]
        if not belongs(backend, version, torch_version):
            advice = what_fits(backend, version, torch_version)
        elif any(text in words for text in _ABSENT):
            advice = say(
                "if the name is from the vendor's driver, driver/driver.toml of {target} lacks it: use "
                "`--plugin simulated`; otherwise the plugin is for another torch, or this machine lacks a "
                "library",
                target=backend.NAME,
            )
        else:
            raise
        raise TorchferryError(
            say(
                "{plugin} {version} does not load with torch {torch}: {error}",
                plugin=backend.PLUGIN,
                version=version,
                torch=torch_version,
                error=words,
            ),
            advice,
        ) from error


def belongs(backend: type[Backend], plugin: str, torch_version: str) -> bool:
    """Whether a plugin's version is for a torch; what follows the numbers of a release does not matter.

    The vendor's table says so. Of a version that is not in there it is known only where the vendor gives its plugin
    the numbers of torch; what nobody can tell counts as yes.
    """
    try:
        wanted = _torch_of(backend, Version(plugin).release)
        return not wanted or Version(torch_version).release in wanted
    except InvalidVersion:
        return True


def _torch_of(backend: type[Backend], plugin: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Return the releases of torch that a plugin's release is for; empty where nobody knows."""
    pairs = set()
    for row in Target(backend).plugin_rows():
        torch_release = Version(row.name.partition("==")[2]).release
        versions = (row.use.partition("==")[2], *row.extra.get("also", ()))
        pairs |= {(Version(each).release, torch_release) for each in versions}
    listed = {torch_release for release, torch_release in pairs if release == plugin}
    shares_numbers = any(release == torch_release for release, torch_release in pairs)
    return listed or ({plugin} if shares_numbers else set())


def may_load(backend: type[Backend], plugin: str, torch_version: str) -> bool:
    """Whether a plugin is worth a try with a torch: it is for one of the same minor version, or nobody can tell.

    A plugin's library is compiled against the C++ of one minor version, which the next one changes.
    """
    try:
        wanted = _torch_of(backend, Version(plugin).release)
        return not wanted or Version(torch_version).release[:2] in {release[:2] for release in wanted}
    except InvalidVersion:
        return True


def what_fits(backend: type[Backend], plugin: str, torch_version: str) -> Message:
    """Return what to install, by the vendor's table: the plugin for this torch, or else the torch for this plugin."""
    fitting = Target(backend).for_torch(torch_version).version
    if fitting and belongs(backend, fitting, torch_version):
        return say(
            "for torch {torch} install {package}=={fitting}",
            torch=Version(torch_version).public,
            package=canonicalize_name(backend.PLUGIN),
            fitting=fitting,
        )
    wanted = _torch_of(backend, Version(plugin).release)
    return say(
        "no plugin for torch {torch} is known; {plugin} {version} is for torch {wanted}",
        torch=Version(torch_version).public,
        plugin=backend.PLUGIN,
        version=plugin,
        wanted=", ".join(".".join(map(str, release)) for release in sorted(wanted)),
    )
