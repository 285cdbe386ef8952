"""Answers to conditions, by what is given to the parameters that they ask for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from enum import Enum

from torchferry.core.record import NamedTuple
from torchferry.programs.parameters import Given, Parameter
from torchferry.programs.sharing import Dependencies, GivenTrees, Question
from torchferry.programs.switches import UNSAID, Value


class Truth(Enum):
    """What a condition says."""

    YES = "yes"
    NO = "no"
    OPEN = "open"


class Answer(NamedTuple):
    """What is known of a condition.

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
        other = {Truth.YES: Truth.NO, Truth.NO: Truth.YES}.get(self.truth, Truth.OPEN)
        return self._replace(truth=other)


class Known(NamedTuple):
    """The value of an expression when nothing is said, and what would change it."""

    value: Value
    option: str = ""
    guard: bool = False

    def agrees(self, other: Known) -> bool:
        """Whether two values are equal and of one type: to Python, `1`, `1.0` and `True` are equal."""
        return type(self.value) is type(other.value) and self.value == other.value


UNTOLD = Known(UNSAID)
"""A value that nobody can tell."""


def alike(told: list[Known]) -> Known:
    """Return the value that several are, the one that tells an option; untold where they differ."""
    first = told[0]
    if all(known.agrees(first) for known in told):
        return next((known for known in told if known.option), first)
    return UNTOLD


class Told(NamedTuple):
    """An answer, what it has asked for that could not be told, and what was given to the parameters it asked for."""

    answer: Answer
    asked: frozenset[Parameter]
    consulted: dict[Parameter, Given | None]


class SharedAnswers:
    """The answers that were given to the programs of a project, each by what it depends on."""

    def __init__(self) -> None:
        self._told: dict[ast.expr, GivenTrees[Told]] = {}

    def find(self, test: ast.expr, bound: Mapping[Parameter, Given], number: Callable[[Question], int]) -> Told | None:
        """Return an answer to a condition that holds for a program where some parameters are given, or None."""
        told = self._told.get(test)
        return told.find(bound, number) if told is not None else None

    def keep(self, test: ast.expr, dependencies: Dependencies, told: Told) -> None:
        """Keep an answer for the programs to come: each condition is searched from its own beginning, also where it
        gives up.
        """
        self._told.setdefault(test, GivenTrees()).keep(told.consulted, dependencies.facts, told)
