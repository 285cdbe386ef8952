"""Which operators each version of a plugin registers, where more than one version was read.

The lists are long and few commands need them, so they have a file of their own, `registrations.toml`, beside
`ops.toml`, which says the rest. `tools/surface_tables.py` writes it from what each wheel adds to torch's dispatcher::

    source = "REG"
    read_from = "wheels"                # or "sources": as the plugin says when it runs, or as its code is written

    [sources]
    REG = "wheels of these versions"

    [torch]                             # plugin versions that were read, and the torch that each was read with
    "1.2.0" = "2.5.1"
    "1.3.0" = "2.7.1"

    [[operators]]
    versions = "1.3.0"                  # those that have them, with spaces between; empty for all
    registered = ["add.Tensor", ...]    # and the other lists of `ops.toml`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_file
from torchferry.backends.tables import newest_not_newer

LISTS = ("registered", "autograd", "sparse", "sparse_compressed", "nested")
"""What is listed: for the device, for autograd on it, and for the kinds of tensors that are not dense."""


READ_FROM = ("wheels", "sources")
"""From what lists are read: from wheels, whose plugins were imported, or from sources."""


@dataclass(frozen=True)
class Registrations:
    """What the versions of one plugin register.

    Attributes:
        torch: The versions that were read, oldest first, each with the torch that it was read with.
        source: Where they were read.
        read_from: One of `READ_FROM`.
        groups: Names that the same versions have: the versions, and the names of each list.
    """

    torch: Mapping[str, str]
    source: str
    read_from: str
    groups: tuple[tuple[frozenset[str], Mapping[str, frozenset[str]]], ...]

    def of(self, version: str) -> dict[str, frozenset[str]]:
        """Return the lists of a version that was read."""
        lists: dict[str, set[str]] = {name: set() for name in LISTS}
        for versions, names in self.groups:
            if version in versions:
                for key, values in names.items():
                    lists[key] |= values
        return {key: frozenset(values) for key, values in lists.items()}

    def nearest(self, version: str) -> str:
        """Return the version that was read and says most of `version`.

        The number after `post` says more than the one before it: it chooses the toolkit over which the plugin is built,
        and what the plugin has came with that. So another release for the same torch counts first, the newest that is
        not newer; without one, the newest version before, and at last the oldest that was read.
        """
        from packaging.version import Version  # imported late, as everywhere in torchferry

        release = Version(version).release
        read = sorted(self.torch, key=Version)
        same_torch = [each for each in read if Version(each).release == release]
        return newest_not_newer(same_torch or read, version)


def registrations(backend: type[Backend]) -> Registrations | None:
    """Return what the versions of a backend's plugin register; None where no file tells versions apart.

    Raises:
        ValueError: the file is malformed.
    """
    path = data_file(backend, "registrations.toml")
    return None if path is None else _load(path)


@lru_cache(maxsize=4)
def _load(path: Path) -> Registrations:
    file = DataFile(path)
    document = file.document
    file.check_keys(document, frozenset({"source", "sources", "read_from", "torch", "operators"}), "file")
    read_from = file.text(document, "read_from", "top")
    if read_from not in READ_FROM:
        raise file.wrong(f"read_from is `{read_from}`, not {' or '.join(READ_FROM)}")
    torch = file.table("torch")
    if not torch:
        raise file.wrong("[torch] names no version that was read")
    groups = []
    for number, entry in enumerate(file.tables("operators"), 1):
        where = f"operators {number}"
        file.check_keys(entry, frozenset({"versions", *LISTS}), where)
        versions = frozenset(file.text(entry, "versions", where).split()) or frozenset(torch)
        if not versions <= torch.keys():
            raise file.wrong(f"{where}: versions `{entry['versions']}` were not read")
        groups.append((versions, {key: frozenset(file.texts(entry, key, where)) for key in LISTS if key in entry}))
    return Registrations(
        {key: file.text(torch, key, "[torch]") for key in torch}, file.cited(document, "top"), read_from, tuple(groups)
    )
