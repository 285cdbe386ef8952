"""What kinds of operators there are, and which operators a schema does not tell apart. No torch here.

`operators.toml` lists what a schema does not say. An operator that is not in it computes: it is checked.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from pathlib import Path

from torchferry.core import toml


class OpKind(enum.Enum):
    """What an operator does to numbers; the value is what reports call it."""

    COMPUTE = "compute"
    MOVE = "move"  # copies values: bit for bit, or rounded to another dtype
    CONSTANT = "constant"  # makes values of its own, or puts a constant among others
    VIEW = "view"
    ALLOCATE = "allocate"  # values are whatever lay there
    RANDOM = "random"
    COMMUNICATE = "communicate"
    BOOKKEEP = "bookkeep"  # no values: sizes, storages, profiler marks; or host reads

    __hash__ = object.__hash__  # a member is itself alone; that of Enum is a function of Python's


COPIES = frozenset(
    {
        "_to_copy", "clone", "copy", "_foreach_copy", "_foreach_clone", "_copy_from", "_copy_from_and_resize",
        "contiguous", "to", "type_as", "lift_fresh_copy", "_autocast_to_full_precision",
        "_autocast_to_reduced_precision", "fill",
    }
)  # fmt: skip
"""Operators that move all values to where they were, maybe to another dtype or device."""


@lru_cache(maxsize=1)
def listed() -> dict[str, OpKind]:
    """Return the kinds of operators whose schema does not say them, by base name or with the overload."""
    table = toml.load_own(Path(__file__).with_name("operators.toml"))
    return {name: OpKind(kind) for kind, names in table.items() for name in names}


@lru_cache(maxsize=4096)
def moves(operator: str) -> bool:
    """Whether an operator, `aten.gather` or `aten.where.self`, gives values that it was given and computes none.

    One that puts a constant among others, such as `masked_fill`, does too.
    """
    _, _, rest = operator.partition(".")
    base = rest.partition(".")[0]
    table = listed()
    return (table.get(rest) or table.get(base)) in {OpKind.MOVE, OpKind.CONSTANT}
