"""The known facts about Triton on a card: its table of constructs, the most programs of a launch, and what it is told.

`triton.toml` of a vendor has rows for what kernels are made of (`backends/data/cuda/triton.toml` has the names), with
`effect` in the words of `core/finding.py`. Its table `[target]` is what `triton.runtime.driver.active` says of a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.backends.datafile import data_directory
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core import toml
from torchferry.core.finding import Effect
from torchferry.core.record import NamedTuple

TABLE = "triton"
"""The table of what kernels are made of."""


def effect_of(row: Row) -> Effect:
    """Return what happens on the card where a construct of a row stands; a row that says nothing raises."""
    return Effect(row.extra.get("effect", Effect.RAISES.value))


class GridLimit(NamedTuple):
    """The most programs of a launch.

    Attributes:
        most: The number.
        row: What the table says of more.
    """

    most: int
    row: Row


def grid_limit(target: Target) -> GridLimit | None:
    """Return the most programs that a launch may have on a target; None where nobody says one."""
    row = target.row(TABLE, "launch(grid)")
    most = row.extra.get("most")
    return None if most is None else GridLimit(int(most), row)


class TritonTarget(NamedTuple):
    """What `triton.runtime.driver.active` says of a card.

    Attributes:
        backend: The name of the back end.
        arch: The architecture, a text or a number.
        warp_size: Threads of a warp; 0 for a card without warps.
        properties: What `utils.get_device_properties` returns, as far as it is known.
        source: Where this comes from.
    """

    backend: str
    arch: str | int
    warp_size: int
    properties: Mapping[str, int]
    source: str


def triton_target(backend: type[Backend]) -> TritonTarget | None:
    """Return what Triton is told of a card of a vendor; None where nobody has verified it."""
    return _read(data_directory(backend) / "triton.toml")


@lru_cache(maxsize=8)
def _read(path: Path) -> TritonTarget | None:
    document = toml.load_own(path) if path.is_file() else {}
    stated = document.get("target")
    if stated is None:
        return None
    source = "; ".join(document["sources"][key] for key in stated["source"].split())
    return TritonTarget(stated["backend"], stated["arch"], stated["warp_size"], stated.get("properties", {}), source)
