"""What a plugin's packages contain: modules and public names, by version, as they were read from the packages.

The api table has the replacements of CUDA's names. A plugin has more, which a rehearsal does not do: that it is
there must not be taken for missing. The lists are in `contents.toml`, beside the backend's tables::

    versions = ["2.9.0", "2.13.0.post1"]    # plugin versions that were read
    incomplete = []                         # those of which not every name could be read
    source = "where"

    [[modules]]
    versions = ""                           # those that have them, with spaces between; empty for all
    names = ["torch_acme", "torch_acme.utils"]

    [[contents]]
    module = "torch_acme.utils"
    versions = "2.9.0"
    callables = ["tool"]                    # functions and classes
    values = ["LIMIT"]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_file
from torchferry.backends.tables import newest_not_newer


class Presence(Enum):
    """What is at a dotted path of a plugin's packages."""

    MODULE = "module"
    CALLABLE = "callable"
    VALUE = "value"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Contents:
    """The packages of one plugin.

    Attributes:
        versions: Versions that were read.
        incomplete: Those of which not every name could be read.
        source: Where they were read.
        by_path: What is at each path, with the versions that have it.
    """

    versions: tuple[str, ...]
    incomplete: frozenset[str]
    source: str
    by_path: dict[str, tuple[Presence, frozenset[str]]] = field(repr=False)

    def presence(self, path: str, version: str) -> Presence:
        """Return what is at `path` in a plugin version, which may be one that was not read."""
        there, having = self.by_path.get(path, (Presence.ABSENT, frozenset[str]()))
        read = self._read_for(version)
        if read in having or having.issuperset(self.versions):
            return there
        if not having:
            return Presence.UNKNOWN if self._is_below_unread(path) else Presence.ABSENT
        return Presence.ABSENT if read and read not in self.incomplete else Presence.UNKNOWN

    def _read_for(self, version: str) -> str:
        """Return the version that was read for the same torch: the newest that is not newer, else the oldest."""
        if version in self.versions:
            return version
        releases = [each for each in self.versions if _base(each) == _base(version)]
        if len(releases) < 2:
            return releases[0] if releases else ""
        return newest_not_newer(releases, version)

    def in_last_complete_version(self, path: str) -> Presence:
        """Return what is at `path` in the newest version of which every name was read."""
        complete = [version for version in self.versions if version not in self.incomplete]
        return self.presence(path, complete[-1]) if complete else Presence.UNKNOWN

    def versions_with(self, path: str) -> tuple[str, ...]:
        """Return the versions that are known to have something at `path`, oldest first."""
        having = self.by_path.get(path, (Presence.ABSENT, frozenset[str]()))[1]
        return tuple(version for version in self.versions if version in having)

    def has_modules(self, path: str) -> bool:
        """Whether there are modules below a module, or may be, since nothing of it was read."""
        below = [kind for name, (kind, _) in self.by_path.items() if name.startswith(path + ".")]
        return not below or Presence.MODULE in below

    def _is_below_unread(self, path: str) -> bool:
        """Whether the nearest module above `path` is one of which nothing was read, such as a compiled one."""
        parent = path.rpartition(".")[0]
        while parent and parent not in self.by_path:
            parent = parent.rpartition(".")[0]
        return bool(parent) and not any(name.startswith(parent + ".") for name in self.by_path)


def contents(backend: type[Backend]) -> Contents | None:
    """Return the known facts about the packages of a backend's plugin; None where nobody has read them.

    Raises:
        ValueError: the file is malformed.
    """
    path = data_file(backend, "contents.toml")
    return None if path is None else _load(path)


def home_of(backend: type[Backend], path: str) -> str:
    """Return the path of the module where the plugin defines what its namespace shows."""
    namespace = backend.NAMESPACE
    if namespace and f"{path}.".startswith(f"{namespace}."):
        return backend.IMPORT_NAMESPACE + path[len(namespace) :]
    return path


@lru_cache(maxsize=4)
def _load(path: Path) -> Contents:
    file = DataFile(path)
    document = file.document
    file.check_keys(document, frozenset({"versions", "incomplete", "source", "modules", "contents"}), "file")
    versions = tuple(document["versions"])
    by_path: dict[str, tuple[Presence, frozenset[str]]] = {}

    def add(path: str, presence: Presence, having: str, where: str) -> None:
        named = frozenset(having.split()) or frozenset(versions)
        if not named <= set(versions):
            raise file.wrong(f"{where}: versions `{having}` were not read")
        kind, before = by_path.get(path, (presence, frozenset[str]()))
        by_path[path] = (kind, before | named)

    for number, entry in enumerate(document.get("modules", ()), 1):
        file.check_keys(entry, frozenset({"versions", "names"}), f"modules {number}")
        for name in entry["names"]:
            add(name, Presence.MODULE, entry["versions"], f"modules {number}")
    for name, (_, having) in list(by_path.items()):  # a folder without a file of its own is a package too
        owner = name.rpartition(".")[0]
        while owner and owner not in by_path:
            for version in having:
                add(owner, Presence.MODULE, version, "modules")
            owner = owner.rpartition(".")[0]
    for number, entry in enumerate(document.get("contents", ()), 1):
        where = f"contents {number}"
        file.check_keys(entry, frozenset({"module", "versions", "callables", "values"}), where)
        for key, presence in (("callables", Presence.CALLABLE), ("values", Presence.VALUE)):
            for name in entry.get(key, ()):
                add(f"{entry['module']}.{name}", presence, entry["versions"], where)
    return Contents(versions, frozenset(document["incomplete"]), file.text(document, "source", "file"), by_path)


def _base(version: str) -> str:
    return version.partition(".post")[0]
