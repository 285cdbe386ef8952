"""The parts of third-party packages that need something of CUDA, where the rest of the package does not.

`torch_scatter.scatter_sum` is plain torch, `scatter_max` a compiled operator; `mmdet.models` cannot be imported without
the operators of mmcv. A program is judged by the parts that it comes to, and not by the import of the package. What a
target has in place of a part is a row of its `parts.toml`.
"""

from __future__ import annotations

from functools import lru_cache

from torchferry.backends.datafile import DATA
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core import toml
from torchferry.core.record import NamedTuple


class CudaPart(NamedTuple):
    """A part of a package that needs something of CUDA.

    Attributes:
        name: The normalised name of the distribution and that of the part, with a dot between them.
        names: The functions, classes and modules that it consists of, as they are imported.
        imported: Whether the import of such a name needs it already, and not only its use.
        argument: The keyword of a call on which it depends whether the part is needed; empty for none.
        position: The index of that argument among the positional ones; -1 where it has none.
        holds: What its value must be for the part to be needed, as the right side of a comparison in Python.
        needs: Other parts that it is made of, which answer for it.
        source: Where this is known from.
    """

    name: str
    names: tuple[str, ...]
    imported: bool
    argument: str
    position: int
    holds: str
    needs: tuple[str, ...]
    source: str

    @property
    def package(self) -> str:
        """The normalised name of the distribution."""
        return self.name.partition(".")[0]


_SEVERITY = ("same", "renamed", "equivalent", "partial", "unknown", "missing")
"""The statuses of rows, from the one that means the least work."""


@lru_cache(maxsize=1)
def parts() -> dict[str, CudaPart]:
    """Return the parts of packages by their names."""
    document = toml.load_own(DATA / "cuda" / "parts.toml")
    sources: dict[str, str] = document["sources"]
    return {
        entry["name"]: CudaPart(
            entry["name"],
            tuple(entry.get("names", ())),
            entry.get("imported", False),
            entry.get("argument", ""),
            entry.get("position", -1),
            entry.get("holds", ""),
            tuple(entry.get("needs", ())),
            "; ".join(sources[key] for key in entry["source"].split()),
        )
        for entry in document["part"]
    }


@lru_cache(maxsize=1)
def divided() -> frozenset[str]:
    """Return the distributions that are judged by the parts that are used, and not by their import."""
    return frozenset(part.package for part in parts().values())


@lru_cache(maxsize=1)
def parts_by_top() -> dict[str, tuple[CudaPart, ...]]:
    """Return the parts by the top-level module that is imported for them."""
    by_top: dict[str, tuple[CudaPart, ...]] = {}
    for part in parts().values():
        for top in dict.fromkeys(name.partition(".")[0] for name in part.names):
            by_top[top] = (*by_top.get(top, ()), part)
    return by_top


def row_of(part: CudaPart, target: Target) -> Row:
    """Return what a target has in place of a part; for one that is made of others, what the worst of them has."""
    if not part.needs:
        return target.row("parts", part.name)
    rows = [row_of(parts()[name], target) for name in part.needs]
    return max(rows, key=lambda row: _SEVERITY.index(row.status))
