"""What is noted in a step beside its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass
class Gathered:
    """What was noted in a step beside its rows; numbers wait on their devices.

    Attributes:
        batch: What the program was given: name, shape, dtype; the hashes of its entries are in `entries`.
        draws: Calls that took random numbers; `drawn` and `kept` have the hash and how many are not 0.
        hashed: Rows whose exact values are hashed in `hashes`.
        numbers: Norms, by what they are of.
        optimizers: What each optimizer is told.
        loss: Rows that backward began from.
    """

    batch: list[dict[str, Any]] = field(default_factory=list)
    entries: list[Tensor] = field(default_factory=list)
    draws: list[dict[str, Any]] = field(default_factory=list)
    drawn: list[Tensor] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    hashed: list[int] = field(default_factory=list)
    hashes: list[Tensor] = field(default_factory=list)
    numbers: dict[str, Tensor] = field(default_factory=dict)
    optimizers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    loss: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sharded: bool = False

    def entries_of(self, tensor: Tensor) -> Tensor:
        """Return a tensor with one entry for each sample, as far as can be told: labels may come flattened."""
        if tensor.dim() == 0:
            return tensor.reshape(1)
        many = self.batch[0]["shape"][0] if self.batch and self.batch[0]["shape"] else 0
        if tensor.dim() == 1 and many and len(tensor) > many and len(tensor) % many == 0:
            return tensor.reshape(many, -1)
        return tensor

    def add_batch(self, name: str, tensor: Tensor, entries: Tensor, dtype: str) -> None:
        """Note a tensor of the batch."""
        self.batch.append({"name": name, "shape": list(tensor.shape), "dtype": dtype})
        self.entries.append(entries)
