"""Make a failing call smaller while it goes on failing, by halving sizes that its tensors share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from torchferry.numerics.framework.operators import tensors

_MOST_TRIES = 1000
_MOST_SIDES = 6
"""Sides of one size of which every choice is tried."""

Fails = Callable[[list[Any], dict[str, Any]], bool]
"""Runs a call on the device, on copies of what it is given, and says whether it still fails."""


def size(args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """Return the bytes that the tensors of a call see, each tensor once."""
    found = {id(one): one for value in (*args, *kwargs.values()) for one in tensors(value)}
    return sum(one.numel() * one.element_size() for one in found.values())


def shrunk(args: Sequence[Any], kwargs: dict[str, Any], fails: Fails, limit: int) -> tuple[list[Any], dict[str, Any]]:
    """Return a call of at most `limit` bytes that fails as well, or the smallest that was found.

    Tensors that share memory are left whole: cut apart they would be another call.
    """
    now: tuple[list[Any], dict[str, Any]] = (list(args), dict(kwargs))
    if _share(now):
        return now
    tries = 0
    while size(*now) > limit:
        for change in _changes(now):
            tries += 1
            smaller = _cut(now, change)
            if _still(fails, smaller):
                now = smaller
                break
            if tries >= _MOST_TRIES:
                return now
        else:
            return now
    return now


def _still(fails: Fails, call: tuple[list[Any], dict[str, Any]]) -> bool:
    try:
        return fails(*call)
    except Exception:  # the sizes no longer fit each other: another error than the one that is looked for
        return False


def _members(call: tuple[list[Any], dict[str, Any]]) -> list[Tensor]:
    args, kwargs = call
    return list({id(one): one for value in (*args, *kwargs.values()) for one in tensors(value)}.values())


def _share(call: tuple[list[Any], dict[str, Any]]) -> bool:
    members = [one for one in _members(call) if type(one) in {Tensor, torch.nn.Parameter}]
    return len({one.untyped_storage()._cdata for one in members}) < len(members)


Side = tuple[int, int]
"""The identity of a tensor, and one of its sides."""

Change = tuple[frozenset[Side], bool]
"""The sides that are halved, and whether the first half stays."""


def _changes(call: tuple[list[Any], dict[str, Any]]) -> Iterator[Change]:
    """Yield what can be halved: the sides of one size, all of them first, then fewer; the largest size first."""
    members = sorted(_members(call), key=lambda one: -one.numel() * one.element_size())
    for n in sorted({n for one in members for n in one.shape if n > 1}, reverse=True):
        sides = [(id(one), side) for one in members for side, length in enumerate(one.shape) if length == n]
        counts = range(len(sides), 0, -1) if len(sides) <= _MOST_SIDES else (len(sides), 1)
        for count in counts:
            for chosen in combinations(sides, count):
                yield frozenset(chosen), True
                yield frozenset(chosen), False


def _cut(call: tuple[list[Any], dict[str, Any]], change: Change) -> tuple[list[Any], dict[str, Any]]:
    sides, first = change
    made: dict[int, Tensor] = {}

    def cut(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in made:
                part = value.detach()
                for side in range(part.dim()):
                    if (id(value), side) in sides:
                        half = part.shape[side] // 2
                        part = part.narrow(side, *((0, half) if first else (half, part.shape[side] - half)))
                made[id(value)] = value if part.shape == value.shape else _packed(part)
            return made[id(value)]
        if isinstance(value, (list, tuple)):
            return [cut(part) for part in value]
        return value

    args, kwargs = call
    return [cut(value) for value in args], {key: cut(value) for key, value in kwargs.items()}


def _packed(tensor: Tensor) -> Tensor:
    """Copy a part so that it has no gaps, its sides in memory in the order that they had."""
    steps = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda dim: (-steps[dim], dim))
    stride = [0] * tensor.dim()
    step = 1
    for dim in reversed(order):
        if steps[dim] == 0:
            continue
        stride[dim] = step
        step *= tensor.shape[dim]
    if 0 in stride:
        return tensor  # repeated: it takes no memory
    packed = torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device)
    return packed.copy_(tensor)
