"""What the fused operators of a vendor mean in common terms, so that they can be checked on a CPU.

A backend's `fused.toml`::

    [sources]
    SRC = "the plugin's documentation"

    [[fused]]
    operator = "acme::acme_rms_norm"
    means = "rms_norm"                                     # a function of numerics/compare/reference.py
    arguments = { given = "self", weight = "gamma" }       # the function's argument = the operator's
    allowed = { mode = ["half"], bias = [] }               # with other values it is not checked; [] is None alone
    auxiliary = [1]                                        # results that only the backward of the device understands
    source = "SRC"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from torchferry.backends import registry
from torchferry.backends.datafile import DataFile

_KEYS = frozenset({"operator", "means", "arguments", "allowed", "auxiliary", "source"})


@dataclass(frozen=True)
class Fused:
    """One fused operator.

    Attributes:
        operator: `acme::acme_rms_norm`.
        means: Name of what it does.
        arguments: Arguments of that, and the operator's arguments that they are.
        allowed: Values that other arguments may have for it to be so; none is None alone.
        auxiliary: Numbers of results that only the backward of the device understands.
        source: Where it is written.
    """

    operator: str
    means: str
    arguments: Mapping[str, str]
    allowed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    auxiliary: tuple[int, ...] = ()
    source: str = ""


@lru_cache(maxsize=1)
def fused_operators() -> dict[str, Fused]:
    """Return the fused operators of all backends by name.

    Raises:
        ValueError: a file is wrong; says which and where.
    """
    operators: dict[str, Fused] = {}
    for path in registry.data_files("fused.toml"):
        data = DataFile(path)
        for row in data.document.get("fused", []):
            data.check_keys(row, _KEYS, "fused")
            operator = data.text(row, "operator", "fused")
            operators[operator] = Fused(
                operator,
                data.text(row, "means", operator),
                dict(row.get("arguments", {})),
                {key: tuple(values) for key, values in row.get("allowed", {}).items()},
                tuple(row.get("auxiliary", ())),
                data.cited(row, operator),
            )
    return operators
