"""Which plugin is rehearsed: the simulated one, the one that is installed, or a wheel."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import re
import sys
import zipfile
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.backends.unknown import Unknown
from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.core.progress import doing, reading
from torchferry.rehearsal import build
from torchferry.rehearsal.driver import matching, plugin_state, torch_build
from torchferry.rehearsal.driver.description import load_driver
from torchferry.rehearsal.driver.torch_build import TorchBuild

SIMULATED = "simulated"
INSTALLED = "installed"
UNSAID = ""
"""The installed plugin, where there is one whose driver can be simulated and no card; else the simulated one."""

SUMMARY = "simulated by torchferry"
"""What the metadata say that a rehearsal writes for the simulated plugin."""

_LARGEST = 8 << 30
"""Bytes of a wheel's contents: what says more is no plugin."""

_SMALL = 1 << 28
_MOST_TIMES = 50
"""Contents of a wheel may have so many bytes, or so many times its own: plugins are compressed to a tenth at best."""

_NAMES_THAT_CLASH = frozenset(
    {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.EILSEQ}
)
"""What a file system says of names that exclude each other, or of one that it cannot have."""

_LIKE = "site-packages"
"""What a folder is called whose files are no user's own."""

_WHEEL = re.compile(r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[^-]+)(?:-[^-]+)?-(?P<python>[^-]+)-[^-]+-[^-]+\.whl")


@dataclass(frozen=True)
class Shipped:
    """The vendor's plugin, as it is shipped.

    Attributes:
        version: As its metadata says.
        folder: Where a wheel was unpacked; empty for what is installed.
    """

    version: str
    folder: str = ""


def installed(backend: type[Backend]) -> Shipped | None:
    """Return the plugin of a backend that is installed in this environment; what a rehearsal puts there is none."""
    for distribution in importlib.metadata.distributions(name=backend.PLUGIN):
        if distribution.metadata["Summary"] != SUMMARY:
            return Shipped(distribution.version)
    return None


def answer_torch(package: str) -> None:
    """Let torch find what it calls of a plugin that is being imported: it is there already, and there is nothing to do.

    A program may import the plugin first. That imports torch, which looks for plugins and calls what their entry points
    name; the package itself comes later.
    """
    module = sys.modules[package]
    for entry_point in importlib.metadata.entry_points(group="torch.backends"):
        name, _, attribute = entry_point.value.partition(":")
        if name == package and attribute:
            setattr(module, attribute, lambda: None)


def choose(backend: type[Backend], wanted: str, version: str, *, beside_card: bool = False) -> Shipped | None:
    """Return the plugin to rehearse with as its vendor ships it; None for the simulated one.

    Args:
        backend: The target's backend.
        wanted: `simulated`, `installed`, the path of a wheel, or nothing.
        version: The version that the target names; empty for any.
        beside_card: Whether a card of this machine may be hidden by the simulated one.

    Raises:
        UsageError: there is no such plugin, it cannot be loaded, its driver cannot be simulated, this machine has a
            card, or torch would load another vendor's plugin too.
    """
    plugin_state.refuse_others(backend, SUMMARY)
    if wanted == SIMULATED:
        return None
    if wanted == UNSAID:
        present = installed(backend)
        if present is None or why_not(backend, present, version) is not None:
            return None
        _refuse_two(backend)
        return present
    if load_driver(backend) is None:
        raise UsageError(
            say("torchferry has no simulated driver for {target}", target=backend.NAME),
            say("rehearse with `--plugin simulated`"),
        )
    card = card_here(backend)
    if card and not beside_card:
        raise UsageError(
            say("this machine has a card ({node}), and the simulated driver would hide it", node=card),
            say("run the command without `rehearse`, or rehearse with `--plugin simulated` or `--beside-card`"),
        )
    if wanted != INSTALLED:
        shipped: Shipped | None = unpacked(Path(wanted), backend)
    else:
        _refuse_two(backend)
        shipped = installed(backend)
    if shipped is None:
        raise UsageError(
            say("{plugin} is not installed in this environment", plugin=backend.PLUGIN),
            say("install it, name a wheel in `--plugin`, or rehearse with `--plugin simulated`"),
        )
    if version and version != shipped.version:
        raise UsageError(
            _another_version(backend, shipped, version),
            say("leave the version out of the target, or install that version"),
        )
    unfit = does_not_load(backend, torch_build.torch_build(), shipped.folder)
    if unfit is not None:
        raise UsageError(unfit, say("or rehearse with `--plugin simulated`"))
    return shipped


def does_not_load(backend: type[Backend], build: TorchBuild, folder: str) -> Message | None:
    """Return why a plugin would end the process that loads it; None where nothing is known against it.

    Args:
        backend: The plugin's backend.
        build: The torch of the process.
        folder: Where a wheel was unpacked; empty for a plugin that is installed.
    """
    return plugin_state.cut_library(backend, folder) or torch_build.unfit(backend, build, folder)


def why_not(backend: type[Backend], present: Shipped, version: str = "") -> Message | None:
    """Return why an installed plugin is not what a rehearsal takes unasked; None where it is.

    Args:
        backend: The target's backend.
        present: The plugin that is installed.
        version: The version that the target names; empty for any.
    """
    if load_driver(backend) is None:
        return say("torchferry has no simulated driver for {target}", target=backend.NAME)
    card = card_here(backend)
    if card:
        return say("this machine has a card ({node}), and the simulated driver would hide it", node=card)
    if version and version != present.version:
        return _another_version(backend, present, version)
    torch_version = torch_here()
    if torch_version and not matching.may_load(backend, present.version, torch_version):
        return say(
            "the installed plugin does not load with torch {torch}; {advice}",
            torch=torch_version,
            advice=matching.what_fits(backend, present.version, torch_version),
        )
    return does_not_load(backend, torch_build.torch_build(), present.folder)


def torch_here() -> str:
    """Return the version of torch in this environment; empty where there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def not_taken(backend: type[Backend], wanted: str, version: str = "") -> Message | None:
    """Return a sentence that says why the installed plugin is not rehearsed; None where there is none, or it is.

    Args:
        backend: The target's backend.
        wanted: As in `choose`.
        version: The version that the target names; empty for any.
    """
    present = installed(backend) if wanted == UNSAID else None
    reason = None if present is None else why_not(backend, present, version)
    if present is None or reason is None:
        return None
    return say(
        "{plugin} {version} is installed, but the rehearsal uses the simulated plugin: {reason}",
        plugin=backend.PLUGIN,
        version=present.version,
        reason=reason,
    )


def _another_version(backend: type[Backend], present: Shipped, wanted: str) -> Message:
    return say(
        "the target names {plugin} {wanted}, and the plugin is {version}",
        plugin=backend.PLUGIN,
        wanted=wanted,
        version=present.version,
    )


def _refuse_two(backend: type[Backend]) -> None:
    """Refuse two versions in one folder: their files lie upon each other, and nothing says which are there.

    In several folders the first on the path is the one that is imported, as ever.
    """
    folders: dict[str, set[str]] = {}
    for distribution in importlib.metadata.distributions(name=backend.PLUGIN):
        folders.setdefault(str(distribution.locate_file("")), set()).add(distribution.version)
    for folder, versions in folders.items():
        if len(versions) > 1:
            raise UsageError(
                say(
                    "{folder} has {plugin} in several versions: {versions}",
                    folder=folder,
                    plugin=backend.PLUGIN,
                    versions=", ".join(sorted(versions)),
                ),
                say("run `pip uninstall` for it until pip finds no more, then install the version that you want"),
            )


def card_here(backend: type[Backend]) -> str:
    """Return the device node of a card of this machine; empty where there is none."""
    pattern = backend.DEVICE_NODES
    return "" if isinstance(pattern, Unknown) or not pattern else next(iter(sorted(glob(pattern))), "")


def unpacked(wheel: Path, backend: type[Backend]) -> Shipped:
    """Return the plugin in a wheel, unpacked in the cache.

    Raises:
        UsageError: it is no wheel of this plugin, it is for another Python, or it is damaged.
        TorchferryError: the cache cannot be written.
    """
    named = _WHEEL.fullmatch(wheel.name)
    if named is None or named["name"].replace("-", "_").lower() != backend.PLUGIN.lower():
        raise UsageError(
            say("{wheel} is not a wheel of {plugin}", wheel=wheel.name, plugin=backend.PLUGIN),
            say("keep the name that the file was downloaded with, or rehearse with `--plugin simulated`"),
        )
    if not wheel.is_file():
        raise UsageError(say("there is no file {path}", path=wheel))
    here = f"cp{sys.version_info.major}{sys.version_info.minor}"
    if named["python"].startswith("cp") and here not in named["python"].split("."):
        raise UsageError(
            say("{wheel} is for another Python than this one ({python})", wheel=wheel.name, python=here),
            say("download the wheel for this Python, or rehearse with the Python that it is for"),
        )
    try:
        digest = hashlib.sha256()
        with reading(wheel) as work, wheel.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
                work.add(len(block))
        folder = build.folder_in_cache(f"plugin-{digest.hexdigest()[:24]}", lambda empty: _unpack(wheel, empty / _LIKE))
    except (OSError, ValueError) as error:
        raise UsageError(
            say("{wheel} cannot be read as a wheel: {error}", wheel=wheel.name, error=error), say("download it again")
        ) from None
    return Shipped(named["version"], str(folder / _LIKE))


def _unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel.

    Raises:
        ValueError: it is damaged, too large, or has a file outside of itself.
        OSError: the cache cannot be written.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = archive.infolist()
            _check_members(wheel, members)
            size = sum(member.file_size for member in members)
            with doing(say("unpacking {path}", path=wheel.name), size, in_bytes=True) as work:
                for member in members:
                    archive.extract(member, folder)
                    work.add(member.file_size)
    except Exception as error:
        of_cache = isinstance(error, OSError) and error.errno is not None and error.errno not in _NAMES_THAT_CLASH
        if isinstance(error, ValueError) or of_cache:
            raise
        # damaged data, a password, a way to compress that nobody knows: each is an error of another kind
        raise ValueError(str(error) or type(error).__name__) from None


def _check_members(wheel: Path, members: list[zipfile.ZipInfo]) -> None:
    size = sum(member.file_size for member in members)
    if size > _LARGEST or size > max(_SMALL, _MOST_TIMES * wheel.stat().st_size):
        raise ValueError(f"its contents have {size} bytes, which no plugin of its size has")
    for member in members:
        path = Path(member.filename)
        if not member.filename or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"it has a file outside of itself: {member.filename[:80]}")
    package = f"{wheel.name.partition('-')[0]}/__init__.py"
    if all(member.filename != package for member in members):
        raise ValueError(f"it has no {package}")
