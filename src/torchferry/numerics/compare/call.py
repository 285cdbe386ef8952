"""A call of the device on its way to its verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import Message
from torchferry.numerics.compare.reference import EIGHT_BITS
from torchferry.numerics.compare.snapshot import Fetched, Snapshot
from torchferry.numerics.framework.attribution import Where
from torchferry.numerics.framework.operators import Operator


@dataclass
class DeviceResult:
    """One result of the device: its values on the CPU, and how it lay on the device."""

    fetched: Fetched
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass
class ComparedCall:
    """One call of an operator, with what it was given and what came of it.

    Attributes:
        number: Its number among the calls that are compared.
        operator: What was called.
        where: Where it belongs.
        step: The step it was in, from 0.
        device: The device, as text.
        snapshot: What it was given.
        results: What the device made of it.
        full: Whether all is measured, or only what the verdict needs.
        note: What part of the call this is, where it is not all of it.
        owners: For operators on lists, which tensor each part is of.
        whole: Elements of the results where only a part of them is here; 0 where all are.
        uncompared: Numbers of the results that are not compared; known when it was judged.
        written: How many of the results are arguments that were written to.
        size: Bytes that it holds.
        shape: Of its first result.
        dtype: Of its first result.
        drift: Relative distance to the golden run, where there is one.
    """

    number: int
    operator: Operator
    where: Where
    step: int
    device: str
    snapshot: Snapshot
    results: list[DeviceResult]
    full: bool = True
    note: Message | None = None
    owners: list[int] | None = None
    whole: int = 0
    uncompared: tuple[int, ...] = ()
    written: int = 0
    size: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = ""
    drift: float | None = None

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they were, with the places of tensors in place of the tensors."""
        return self.snapshot.args, self.snapshot.kwargs

    def extent(self) -> tuple[int, int]:
        """Return how many elements of the results are compared, and how many there are in those results."""
        here = sum(result.count for number, result in enumerate(self.results) if number not in self.uncompared)
        return here, self.whole or here

    @cached_property
    def given_finite(self) -> bool:
        """Whether all that it was given is finite; False where that is not known."""
        try:
            return all(bool(_values(store.tensor).isfinite().all()) for store in self.snapshot.stores)
        except (RuntimeError, NotImplementedError):
            return False


def _values(tensor: Tensor) -> Tensor:
    """Return values of which torch can say whether they are finite."""
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    return tensor.to(torch.float32) if tensor.dtype in EIGHT_BITS else tensor
