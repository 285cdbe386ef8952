"""Which dtypes the process group of a plugin refuses, operation by operation.

The plugin's sources say it, in its own file beside the backend's tables, `collectives.toml`::

    [sources]
    PG = "where the process group was read"

    [names]                                  # how the texts spell a dtype; its name in C++ where it is absent
    float64 = "at::kDouble"

    [[refused]]
    operations = ["allreduce", "reduce"]     # of c10d's process groups; [] means every one that takes tensors
    dtypes = ["float64"]
    text = "XCCL {operation}: no {dtype}"    # the vendor's own words
    source = "PG"

Without the file it is UNKNOWN what is refused. What the file does not refuse is not known to be refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_file
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core.record import NamedTuple

OPERATIONS = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "broadcast",
    "allgather",
    "_allgather_base",
    "allgather_into_tensor_coalesced",
    "gather",
    "scatter",
    "alltoall",
    "alltoall_base",
    "send",
    "recv",
    "recvAnysource",
)
"""Operations of a process group that take tensors, as `c10d::Backend` calls them."""

DTYPES = {
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex32": "ComplexHalf",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "bool": "Bool",
}
"""Dtypes, with the names that C++ writes into texts."""

_KEYS = frozenset({"operations", "dtypes", "text", "source"})


class Refusal(NamedTuple):
    """One operation with one dtype.

    Attributes:
        operation: One of `OPERATIONS`.
        dtype: One of `DTYPES`.
        text: What the plugin says.
        source: Where that was read.
    """

    operation: str
    dtype: str
    text: str
    source: str


def refusals(backend: type[Backend]) -> tuple[Refusal, ...] | Unknown:
    """Return what the process group of a backend's plugin refuses; UNKNOWN where nobody has read it.

    Raises:
        ValueError: the file is malformed.
    """
    path = data_file(backend, "collectives.toml")
    return UNKNOWN if path is None else _load(path)


@lru_cache(maxsize=16)
def _load(path: Path) -> tuple[Refusal, ...]:
    return tuple(_read(DataFile(path)))


def _read(file: DataFile) -> Iterator[Refusal]:
    file.check_keys(file.document, frozenset({"sources", "names", "refused"}), "file")
    names = {**DTYPES, **file.document.get("names", {})}
    seen: set[tuple[str, str]] = set()
    for number, entry in enumerate(file.document.get("refused", ()), 1):
        where = f"refused {number}"
        file.check_keys(entry, _KEYS, where)
        source, text = file.cited(entry, where), file.text(entry, "text", where)
        for operation in entry["operations"] or OPERATIONS:
            for dtype in entry["dtypes"]:
                if operation not in OPERATIONS or dtype not in DTYPES:
                    raise file.wrong(f"{where}: there is no {operation} of {dtype}")
                if (operation, dtype) in seen:
                    continue  # the first entry that fits, as in the plugin's own checks
                seen.add((operation, dtype))
                yield Refusal(operation, dtype, text.format(operation=operation, dtype=names[dtype]), source)
