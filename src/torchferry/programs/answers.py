"""Answers to conditions, and which of them hold for other programs too.

`if args.use_flash` is asked on the ways of many programs. What is said about it depends on the program only through a
few facts: the option of that name, the words of its command, the files that call a function. All facts that were asked
for are taken down with the answer, and where they are the same for another program, the answer holds there.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping
from enum import Enum

from torchferry.core.record import NamedTuple
from torchferry.programs.parameters import Given, Parameter
from torchferry.programs.switches import Value


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


Fact = tuple[str, Hashable]
"""What was asked of a program: the kind of the question, and what it was about, such as a name."""


class Dependencies:
    """All that was asked of a program for one answer.

    Attributes:
        facts: What was asked, each with what the program says.
        is_whole: Whether nothing else decided: the search did not give up, and did not meet itself.
    """

    __slots__ = ("facts", "is_whole")

    def __init__(self) -> None:
        self.facts: dict[Fact, object] = {}
        self.is_whole = True

    def add(self, other: Dependencies) -> None:
        """Add what another answer depends on, which this one rests on."""
        self.facts |= other.facts
        self.is_whole = self.is_whole and other.is_whole


class Told(NamedTuple):
    """An answer, what it has asked for that could not be told, and what was given to the parameters it asked for."""

    answer: Answer
    asked: frozenset[Parameter]
    consulted: dict[Parameter, Given | None]


class Answers:
    """The answers to one condition, by the parameters that it asked for, and by what was given to these.

    A condition on a way is met with as many arguments as there are calls that lead to it.
    """

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[tuple[Parameter, ...], dict[tuple[Given | None, ...], Told]] = {}

    def find(self, bound: Mapping[Parameter, Given]) -> Told | None:
        """Return an answer that holds where some parameters are given, or None."""
        for parameters, by_given in self._told.items():
            told = by_given.get(tuple(map(bound.get, parameters)))
            if told is not None:
                return told
        return None

    def keep(self, told: Told) -> None:
        """Keep an answer."""
        self._told.setdefault(tuple(told.consulted), {}).setdefault(tuple(told.consulted.values()), told)


_MOST_KEPT = 8
"""Answers to one condition that are kept; of further ones none is likely to be asked again."""


class SharedAnswers:
    """The answers that were given to the programs of a project, each with what it depends on."""

    def __init__(self) -> None:
        self._answers: dict[ast.expr, list[tuple[Dependencies, Told]]] = {}

    def of(self, test: ast.expr) -> Iterator[tuple[Dependencies, Told]]:
        """Yield what is kept for a condition."""
        yield from self._answers.get(test, ())

    def keep(self, test: ast.expr, dependencies: Dependencies, told: Told) -> None:
        """Keep an answer for the programs to come: each condition is searched from its own beginning, also where it
        gives up.
        """
        kept = self._answers.setdefault(test, [])
        if len(kept) < _MOST_KEPT:
            kept.append((dependencies, told))
