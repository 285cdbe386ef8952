"""Answers to conditions, by what is given to the parameters that they ask for."""

from __future__ import annotations

from enum import Enum

from torchferry.core.record import NamedTuple
from torchferry.programs.options.switches import UNDETERMINED, Value


class Truth(Enum):
    """What a condition says."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Answer(NamedTuple):
    """The known facts about a condition.

    Attributes:
        truth: What it says when nothing is said.
        option: What must be said for it to change, such as `--use-flash`; empty where nothing can be.
        guard: Whether it says so because it asks for something that the target does not have.
    """

    truth: Truth
    option: str = ""
    guard: bool = False

    def turned(self) -> Answer:
        """Return the answer of the opposite question."""
        other = {Truth.YES: Truth.NO, Truth.NO: Truth.YES}.get(self.truth, Truth.UNKNOWN)
        return self._replace(truth=other)


class DefaultValue(NamedTuple):
    """The value of an expression when nothing is said, and what would change it."""

    value: Value
    option: str = ""
    guard: bool = False

    def agrees(self, other: DefaultValue) -> bool:
        """Whether two values are equal and of one type: to Python, `1`, `1.0` and `True` are equal."""
        return type(self.value) is type(other.value) and self.value == other.value


UNKNOWN_VALUE = DefaultValue(UNDETERMINED)
"""A value that nobody can tell."""


def alike(values: list[DefaultValue]) -> DefaultValue:
    """Return the value that several are, the one that tells an option; untold where they differ."""
    first = values[0]
    if all(value.agrees(first) for value in values):
        return next((value for value in values if value.option), first)
    return UNKNOWN_VALUE
