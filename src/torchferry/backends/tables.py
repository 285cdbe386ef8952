"""Large flat maps of a backend, kept as TOML rows: what is on the CUDA side and what to use instead.

A table file names its sources once and groups rows that share everything but their names::

    verified = ["2.9.0", "2.13.0"]            # plugin versions whose surface was read, oldest first

    [sources]
    TN29 = "torch-npu 2.9.0 wheel (PyPI), read statically"

    [[row]]
    names = ["torch.cuda.Event", "torch.cuda.Stream"]
    status = "same"
    source = "TN29"

    [[row]]
    name = "torch.cuda.CUDAGraph"
    status = "renamed"
    use = "torch.npu.NPUGraph"
    since = "2.1.0"
    note = "captures inference only"
    note_zh = "只能捕获推理"
    source = "TN29"

`libraries.toml` speaks of Python libraries instead, and has words of its own: `LIBRARY_STATUSES`, `ORDERS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.core import toml
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

STATUSES = ("same", "renamed", "equivalent", "partial", "missing", "unknown")
"""What became of a CUDA-side name on the target.

same: exists under the backend's own namespace with the same name; renamed: exists under another name;
equivalent: something else does the same; partial: exists with limits that `note` states; missing: does not
exist; unknown: not verified.
"""

REWRITTEN = frozenset({"same", "renamed", "equivalent", "partial"})
"""The statuses for which there is something to write instead."""

LIBRARY_STATUSES = ("knows", "partial", "ignores", "unknown")
"""What a library of `libraries.toml` does about the target's device.

knows: chooses it by itself; partial: takes it when it is named, or in the parts that `note` states; ignores: has no
code for it; unknown: not verified.
"""

ORDERS = ("before", "after", "mixed", "only", "named", "never")
"""When a library asks `torch.cuda` whether there is a device, which decides what a True there would do to it.

before: it tests for the target first, and is not misled; after: it asks `torch.cuda` first, and would take CUDA;
mixed: some of its functions before, others after; only: it asks `torch.cuda` and never for the target; named: it
takes the device that its caller names; never: something else decides, as `asks` says.
"""

_VOCABULARY = {"libraries": LIBRARY_STATUSES}


class Row(NamedTuple):
    """One name of the CUDA side and what the target has in its place.

    Attributes:
        name: The CUDA-side name, fully qualified; in `libraries.toml` the package that is imported.
        status: One of `STATUSES`; in `libraries.toml` of `LIBRARY_STATUSES`.
        use: What to write instead; empty means the same name under the backend's namespace.
        since: First plugin version for which the row holds, or several, as `reached` reads them; empty for every
            verified version. In `libraries.toml` this and `until` are versions of the library.
        until: First plugin version for which it no longer holds; empty for none.
        note: A sentence for the user, in English; `note_zh` is the same in Chinese.
        source: Where the fact comes from, in full.
        extra: Further fields that one table needs, such as `keywords` for renamed arguments.
    """

    name: str
    status: str
    use: str = ""
    since: str = ""
    until: str = ""
    note: str = ""
    note_zh: str = ""
    source: str = ""
    extra: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple default, never mutated

    @property
    def remark(self) -> Bilingual | None:
        """The note in both languages, or None."""
        return Bilingual(self.note, self.note_zh) if self.note else None

    @property
    def lacks_arguments(self) -> Mapping[str, int]:
        """The arguments of CUDA's function that the target's does not take, with their positions; -1: none."""
        lacking: Mapping[str, int] = self.extra.get("lacks_arguments", {})
        return lacking

    @property
    def lacks_methods(self) -> frozenset[str]:
        """The methods of an object of CUDA's class that one of the target's does not have."""
        return frozenset(self.extra.get("lacks_methods", ()))

    @property
    def default_argument(self) -> str:
        """The function whose result the target's function is to be given where CUDA's is given nothing; or nothing."""
        return str(self.extra.get("default_argument", ""))

    def refused(self, positional: int, keywords: Iterable[str]) -> list[str]:
        """Return the arguments of a call that the target's function does not take.

        Args:
            positional: How many are given by position.
            keywords: The names of the others.
        """
        named = set(keywords)
        return [name for name, place in self.lacks_arguments.items() if name in named or 0 <= place < positional]

    def holds_for(self, version: str) -> bool:
        """Whether the row is about version `version`; an empty version is the newest.

        Raises:
            packaging.version.InvalidVersion: the row has a range, and `version` is not a version.
        """
        if not version:
            return not self.until
        return not ((self.since and not reached(self.since, version)) or (self.until and reached(self.until, version)))


def normalised(distribution: str) -> str:
    """Return a distribution's name as PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def plugin_versions(row: Row) -> list[str]:
    """Return the plugin versions that a row of `versions.toml` names, the recommended one first."""
    return list(dict.fromkeys([row.use.partition("==")[2], *row.extra.get("sdk", ()), *row.extra.get("also", ())]))


def names_plugin(row: Row, version: str) -> bool:
    """Whether a row of `versions.toml` names a plugin version.

    What follows `+` names a build, and counts where both sides have it: a plugin often says its version without.
    """
    public, _, build = version.partition("+")
    for plugin in plugin_versions(row):
        stated, _, wanted = plugin.partition("+")
        if public == stated and (not build or not wanted or build == wanted):
            return True
    return False


def newest_not_newer(versions: Sequence[str], version: str) -> str:
    """Return the newest of some versions, oldest first, that is not newer than `version`; else the oldest."""
    from packaging.version import Version  # imported late, as below

    wanted = Version(version)
    return next((each for each in reversed(versions) if Version(each) <= wanted), versions[0])


def reached(first: str, version: str) -> bool:
    """Whether a version is the first one that is named or comes after it.

    Where a plugin has releases over newer toolkits for one torch, what is new came to several torches at once: several
    first versions are named then, oldest first, each for its own torch, and the last one for all that are not named.
    """
    from packaging.version import Version  # imported late: a target without a version does not need it

    wanted = Version(version)
    *others, last = map(Version, first.split())
    return wanted >= next((each for each in others if each.release == wanted.release), last)


class Table:
    """The rows of one TOML file, found by name."""

    def __init__(self, rows: dict[str, tuple[Row, ...]], verified: tuple[str, ...] = ()) -> None:
        self._rows = rows
        self.verified = verified

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        for rows in self._rows.values():
            yield from rows

    def named(self, name: str) -> tuple[Row, ...]:
        """Return all rows for exactly `name`, of whatever version, in the order of the file."""
        return self._rows.get(name, ())

    def get(self, name: str, version: str = "") -> Row | None:
        """Return the row for exactly `name` that holds for `version`, or None."""
        for row in self._rows.get(name, ()):
            if row.holds_for(version):
                return row
        return None

    def nearest(self, name: str, version: str = "") -> Row | None:
        """Return the row for `name` or for the longest dotted prefix of it, or None."""
        while name:
            row = self.get(name, version)
            if row is not None:
                return row
            name = name.rpartition(".")[0]
        return None

    def extended(self, other: Table) -> Table:
        """Return a table of these rows with those of `other` in place of rows of the same name."""
        return Table({**self._rows, **other._rows}, other.verified or self.verified)


EMPTY = Table({})

_ROW_FIELDS = frozenset({"name", "names", "status", "use", "since", "until", "note", "note_zh", "source"})


@lru_cache(maxsize=64)
def load_table(path: Path) -> Table:
    """Read a table file; a file that does not exist is an empty table.

    Raises:
        ValueError: a row lacks a field, cites a source the file does not name, or has an unknown status.
    """
    if not path.is_file():
        return EMPTY
    document = toml.load_own(path)
    sources: dict[str, str] = document.get("sources", {})
    statuses = _VOCABULARY.get(path.stem, STATUSES)
    rows: dict[str, tuple[Row, ...]] = {}
    for entry in document.get("row", ()):
        status = entry.get("status", "")
        if status not in statuses:
            raise ValueError(f"{path}: status `{status}` of {entry} is not one of {', '.join(statuses)}")
        keys = entry.get("source", "").split()
        if not keys or any(key not in sources for key in keys):
            raise ValueError(f"{path}: source of {entry} is not in [sources]")
        source = "; ".join(sources[key] for key in keys)
        extra = {field: value for field, value in entry.items() if field not in _ROW_FIELDS}
        for name in [entry["name"]] if "name" in entry else entry["names"]:
            row = Row(
                name,
                status,
                entry.get("use", ""),
                entry.get("since", ""),
                entry.get("until", ""),
                entry.get("note", ""),
                entry.get("note_zh", ""),
                source,
                extra,
            )
            rows[name] = (*rows.get(name, ()), row)
    return Table(rows, tuple(document.get("verified", ())))
