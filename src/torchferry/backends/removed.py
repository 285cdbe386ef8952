"""What newer versions of torch, NumPy, Python and libraries refuse, whatever the device (`common/removed.toml`)."""

from __future__ import annotations

import re
from functools import lru_cache

from torchferry.backends.datafile import DATA, DataFile
from torchferry.backends.tables import names_plugin
from torchferry.backends.target import Target
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

_KEYS = frozenset({"names", "package", "since", "until", "write", "import", "dtype", "note", "note_zh", "source"})
OF_TORCH = ("torch", "torchvision", "torchtext")
"""Packages of which every version belongs to one torch."""


class Removed(NamedTuple):
    """A name that newer versions of a package do not have.

    Attributes:
        name: The canonical name.
        package: Whose version decides.
        since: The first version that refuses it; of `torchvision` and `torchtext` the torch that they belong to.
        until: The first version that has it again; empty for none.
        write: An expression that means the same; `{root}` is the module as the file spells it, `{last}` the name's end.
        statements: What binds the imported name `{name}` to the same thing.
        dtype: Whether `write` means the same only where a dtype is expected.
        note: What to do by hand; None where something can be written.
        source: Where it is stated.
    """

    name: str
    package: str
    since: str
    until: str
    write: str
    statements: tuple[str, ...]
    dtype: bool
    note: Bilingual | None
    source: str

    @property
    def last(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]


class _Beside(NamedTuple):
    package: str
    version: tuple[int, ...]
    torch: tuple[int, ...]


@lru_cache(maxsize=256)
def release(version: str) -> tuple[int, ...]:
    """Return a version as what is compared with others: its numbers, without the zeros behind them.

    Those of our tables are plain releases, and every command compares them: to load `packaging` would take far longer.
    """
    numbers = [int(number[:18]) for number in re.findall(r"\d+", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


@lru_cache(maxsize=1)
def _file() -> DataFile:
    return DataFile(DATA / "common" / "removed.toml")


@lru_cache(maxsize=1)
def removed_names() -> dict[str, Removed]:
    """Return what was removed, by canonical name.

    Raises:
        ValueError: the table is wrong; says where.
    """
    data = _file()
    removed: dict[str, Removed] = {}
    for row in data.tables("name"):
        names = data.texts(row, "names", "name")
        where = names[0] if names else "name"
        data.check_keys(row, _KEYS, where)
        note = data.text(row, "note", where)
        write = data.text(row, "write", where)
        if not note and not write and not row.get("import"):
            raise data.wrong(f"{where}: says neither what to write nor what to do")
        for name in names:
            if name in removed:
                raise data.wrong(f"{name} stands there twice")
            removed[name] = Removed(
                name,
                data.text(row, "package", where),
                data.text(row, "since", where),
                data.text(row, "until", where),
                write,
                data.texts(row, "import", where),
                bool(row.get("dtype", False)),
                Bilingual(note, data.text(row, "note_zh", where)) if note else None,
                data.cited(row, where),
            )
    return removed


@lru_cache(maxsize=1)
def _beside() -> tuple[_Beside, ...]:
    data = _file()
    return tuple(
        _Beside(data.text(row, "package", "beside"), release(row["version"]), release(row["torch"]))
        for row in data.tables("beside")
    )


def oldest_beside(target: Target, package: str) -> str:
    """Return the oldest version of a package that can be installed where a target's torch is; empty for any."""
    torch = release(torch_of(target))
    rows = [row for row in _file().tables("oldest") if row["package"] == package and torch >= release(row["torch"])]
    return str(rows[-1]["version"]) if rows else ""


@lru_cache(maxsize=64)
def torch_of(target: Target) -> str:
    """Return the torch that the target's plugin belongs to; the oldest of the table where its version is in no row."""
    rows = [row for row in target.plugin_rows() if row.name.startswith("torch==")]
    versions = [row.name.partition("==")[2] for row in rows if target.version and names_plugin(row, target.version)]
    if versions:
        return max(versions, key=release)
    every = sorted((row.name.partition("==")[2] for row in rows), key=release)
    if not every:
        return "0"
    if not target.version:
        return every[-1]
    same = [version for version in every if _numbers(version) == _numbers(target.version)]
    return same[-1] if same else every[0]


def _numbers(version: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+", version)[:2])


def is_refused(target: Target, removed: Removed) -> bool:
    """Whether what a target's plugin needs, or what comes with it when nothing is pinned, refuses a name."""
    torch, since = release(torch_of(target)), release(removed.since)
    if removed.package in OF_TORCH:
        return torch >= since
    return any(row.package == removed.package and row.version >= since and torch >= row.torch for row in _beside())
