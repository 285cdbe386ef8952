"""What a recording was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LIMIT = 1 << 30
"""Bytes that a rank's record may take, unless the user says otherwise."""


@dataclass(frozen=True)
class Options:
    """What is recorded, and how much of it.

    Attributes:
        folder: Where the record goes; absolute.
        first: Steps from the first on that are recorded operator by operator.
        every: Which of the later steps are: each tenth, for example; 0 for none. The others leave a line.
        limit: Bytes that the record of one rank may take; then it ends, and says so.
        tensors: Patterns of module paths whose results are kept whole.
        form: `safetensors`; `parquet` writes the rows as tables too.
        perturb: Whether parameters are multiplied by 1 + 2^-24 N(0, 1) before the first step, so that two records show
            how far rounding alone carries.
    """

    folder: str
    first: int = 20
    every: int = 10
    limit: int = LIMIT
    tensors: tuple[str, ...] = field(default=())
    form: str = "safetensors"
    perturb: bool = False

    def records(self, step: int) -> bool:
        """Whether a step is recorded operator by operator."""
        return step < self.first or (self.every > 0 and step % self.every == 0)

    def records_state(self, step: int) -> bool:
        """Whether a step's parameters and gradients are sketched one by one."""
        return self.records(step) and (step < min(self.first, 3) or step % 20 == 0)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Options:
        """Return the options that `as_dict` made."""
        return cls(**{**values, "tensors": tuple(values.get("tensors", ()))})

    def as_dict(self) -> dict[str, Any]:
        """Return the options as values that JSON has."""
        return {**self.__dict__, "tensors": list(self.tensors)}
