"""Which versions of a target's plugin its tables know, and how they spell them: 2.13 is 2.13.0."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torchferry.backends.base import Backend
from torchferry.backends.contents import contents
from torchferry.backends.tables import Row, names_plugin, normalised, plugin_versions
from torchferry.core.errors import UsageError
from torchferry.core.messages import say


def plugin_rows(backend: type[Backend]) -> list[Row]:
    """Return the rows of `versions.toml` that are about the plugin, not about what is installed beside it."""
    name = normalised(backend.PLUGIN)
    return [row for row in backend.table("versions") if normalised(row.use.partition("==")[0]) == name]


def known_versions(backend: type[Backend]) -> tuple[str, ...]:
    """Return the versions of a plugin that some table names, oldest first; none of a plugin without such tables."""
    from packaging.version import Version  # imported late: a target without a version does not need it

    read = contents(backend)
    named = [*backend.table("api").verified, *(() if read is None else read.versions)]
    named += [version for row in plugin_rows(backend) for version in plugin_versions(row) if version]
    return tuple(sorted(dict.fromkeys(named), key=Version))


def is_known(backend: type[Backend], version: str) -> bool:
    """Whether a version is that of a release that some table names, or nobody knows the plugin's versions."""
    return not known_versions(backend) or _release(version) in _releases(backend)


def known_version(backend: type[Backend], version: str) -> str:
    """Return a version of a plugin as its tables spell it.

    What follows the release, such as `.post3` or `+build`, need not be known: vendors build a release many times.

    Args:
        backend: The target.
        version: A version, as `packaging` reads it.

    Raises:
        UsageError: no table names the release.
    """
    from packaging.version import Version  # imported late, as above

    wanted = Version(version)
    listed = known_versions(backend)
    if not listed:
        return version
    same = next((each for each in listed if Version(each) == wanted), None)
    if same is not None:
        return same
    releases = _releases(backend)
    release = releases.get(_release(version))
    if release is not None:
        return Version(release).base_version + str(wanted)[len(wanted.base_version) :]
    near = [each for numbers, each in releases.items() if numbers[:2] == wanted.release[:2]]
    names = ", ".join(releases.values())
    advice = say("known: {names}; if yours is newer, leave the version out", names=names)
    if near:
        advice = say("did you mean `{close}`? (known: {names})", close=f"{backend.NAME}@{near[-1]}", names=names)
    problem = say("version {version} of {plugin} is in no table", version=version, plugin=backend.PLUGIN)
    raise UsageError(problem, advice)


def _releases(backend: type[Backend]) -> dict[tuple[int, ...], str]:
    """Return the releases that are known, oldest first, each with the shortest version of it."""
    releases: dict[tuple[int, ...], str] = {}
    for version in known_versions(backend):
        release = _release(version)
        if len(version) < len(releases.get(release, version + "*")):
            releases[release] = version
    return releases


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a release without the zeros at their end, as `packaging` compares them."""
    from packaging.version import Version  # imported late, as above

    numbers = list(Version(version).release)
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def distributions(backend: type[Backend]) -> tuple[str, ...]:
    """Return the distributions that `versions.toml` has rows of, as it spells them, in its order."""
    return tuple(dict.fromkeys(distribution_of(row) for row in backend.table("versions") if row.use))


def distribution_of(row: Row) -> str:
    """Return the distribution that a row of `versions.toml` is about."""
    return row.use.partition("==")[0]


def torch_of_plugin(rows: Sequence[Row], version: str) -> tuple[str, ...]:
    """Return the versions of torch that a version of a plugin is built for; empty where nobody knows.

    A row that names the version says it; else one that names the same release over another toolkit; else the number of
    the plugin itself, where it is that of torch: then the versions of torch with the same two numbers.

    Args:
        rows: The rows of the plugin in `versions.toml`.
        version: A version of the plugin.
    """
    verified = [row for row in rows if row.status != "unknown"]
    named = [row for row in verified if names_plugin(row, version)]
    if not named:
        named = [row for row in verified if any(_release(each) == _release(version) for each in plugin_versions(row))]
    if named:
        return tuple(dict.fromkeys(row.name.partition("==")[2] for row in named))
    if not is_numbered_as_torch(rows, version):
        return ()
    numbers = ".".join(map(str, minor(version)))
    return tuple(f"{numbers}.{patch}" for patch in range(_PATCHES))


_PATCHES = 10
"""No version of torch 1 or 2 has had a third number as high."""


def is_numbered_as_torch(rows: Sequence[Row], version: str) -> bool:
    """Whether a version of a plugin says by its number which torch it is for.

    That holds where all plugins of the table have the first two numbers of their torch, from the oldest of them on.
    """
    pairs = [(minor(row.name.partition("==")[2]), minor(row.use.partition("==")[2])) for row in rows]
    if not pairs or any(of_torch != of_plugin for of_torch, of_plugin in pairs):
        return False
    return minor(version) >= min(of_torch for of_torch, _ in pairs)


def minor(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, as far as they are numbers; those of a local build are none."""
    return tuple(int(number[:18]) for number in re.findall(r"\d+", version.partition("+")[0])[:2])
