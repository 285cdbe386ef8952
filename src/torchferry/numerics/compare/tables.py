"""What operators are like, beyond their kind: how errors grow in them, and what their arguments mean."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

from torchferry.backends.fused import fused_operators
from torchferry.core import toml
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import Operator


class Growth(enum.Enum):
    """How rounding errors grow in an operator; what only moves values rounds at most once, to the nearest."""

    NONE = "exact"
    POINT = "pointwise"
    SUM = "reduction"
    PRODUCT = "product"

    __hash__ = object.__hash__  # a member is itself alone; that of Enum is a function of Python's


@lru_cache(maxsize=1)
def _tables() -> dict[str, Any]:
    return toml.load_own(Path(__file__).with_name("tables.toml"))


@lru_cache(maxsize=1)
def _sets() -> dict[str, frozenset[str]]:
    return {name: frozenset(names) for name, names in _tables().items() if isinstance(names, list)}


def plain(base: str) -> str:
    """Return the name of an operator without the mark of one that works in place: `add` for `add_`."""
    return base[:-1] if base.endswith("_") and not base.endswith("__") else base


def _is(operator: Operator, table: str) -> bool:
    base, overload = plain(operator.base), operator.overload._overloadname
    names = _sets()[table]
    return base in names or f"{base}.{overload}" in names


@cache
def growth(operator: Operator) -> Growth:
    """Return how errors grow in an operator; one of which nothing is known reduces, if it is not pointwise."""
    if operator.kind is OpKind.MOVE:
        return Growth.NONE
    if operator.kind is OpKind.CONSTANT:
        return Growth.POINT
    if _is(operator, "product"):
        return Growth.PRODUCT
    if _is(operator, "reduction"):
        return Growth.SUM
    if torch.Tag.pointwise in operator.overload.tags or is_elementwise_list(operator):
        return Growth.POINT
    return Growth.SUM


@cache
def is_elementwise_list(operator: Operator) -> bool:
    """Whether it works on lists of tensors, element by element, such as an optimizer's."""
    base = plain(operator.base)
    if base.startswith("_foreach_"):
        return base not in ("_foreach_norm", "_foreach_max", "_foreach_powsum")
    return base in ("_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad")


@cache
def is_stepped(operator: Operator) -> bool:
    """Whether a slightly different input can change the result by a whole step."""
    return _is(operator, "stepped")


@cache
def is_opaque(operator: Operator) -> bool:
    """Whether it takes or gives a workspace that only the same kernel of the same device can read."""
    return _is(operator, "opaque")


@cache
def is_unordered(operator: Operator) -> bool:
    """Whether devices add in an order that differs from run to run."""
    return _is(operator, "unordered")


@cache
def is_sum(operator: Operator) -> bool:
    """Whether each element of a result is a sum of products of the arguments."""
    return _is(operator, "sum")


@cache
def ulps(operator: Operator) -> float:
    """Return what a device may be off by in one pointwise function, in ULP."""
    value: float = _tables()["ulp"].get(plain(operator.base), 4)
    return value


@cache
def chosen(operator: Operator) -> int | None:
    """Return the number of the result that has indices of chosen elements, or None."""
    table: dict[str, int] = _tables()["chosen"]
    base, overload = plain(operator.base), operator.overload._overloadname
    named = f"{base}.{overload}"
    return table.get(named, table.get(base))


def widened(
    operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that fit a run in higher precision: what says that half becomes float says it no more."""
    if operator.base in ("_softmax", "_log_softmax") and len(args) > 2:
        return (*args[:2], False), kwargs
    return args, kwargs


@cache
def statistics(operator: Operator) -> dict[int, str]:
    """Return what auxiliary results mean that can be compared where the device gives them too."""
    table: dict[str, dict[str, int]] = _tables()["statistics"]
    return {number: name for name, number in table.get(operator.base, {}).items()}


@cache
def auxiliary(operator: Operator) -> frozenset[int]:
    """Return the numbers of results that only the backward of the same device understands."""
    fused = fused_operators().get(f"{operator.space}::{operator.base}")
    numbers: Iterable[int] = _tables()["auxiliary"].get(operator.base, fused.auxiliary if fused else ())
    return frozenset(numbers)
