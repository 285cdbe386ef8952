"""What Triton is told of a card: the back end that compiles for it, and the properties that programs ask for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.backends.datafile import data_directory
from torchferry.core import toml
from torchferry.core.record import NamedTuple


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
