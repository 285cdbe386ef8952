"""What was found for one program and holds for others: for all that say the same to what it rests on.

`if args.use_flash` is asked on the ways of many programs. What is said about it depends on the program only through a
few facts: the option of that name, the words of its command, the files that call a function. A search asks the same
first question of each program, and after the same answer the same next one, so that what was found is kept in a tree
of questions: another program is led through it by its own answers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.sources import Sources
from torchferry.programs.options.answers import Answer
from torchferry.programs.references.calls import CallPlaces
from torchferry.programs.syntax.parameters import BoundArgument, Parameter

T = TypeVar("T")

_MOST_TREES = 20_000
"""Expressions and questions of which results are kept."""


class Question:
    """A question that programs are asked, and what they say.

    Attributes:
        kind: The kind of the question.
        name: What it is about, such as a name.
    """

    __slots__ = ("_said", "kind", "name")

    def __init__(self, kind: str, name: Hashable) -> None:
        self.kind = kind
        self.name = name
        self._said: list[object] = []

    def number(self, answer: object) -> int:
        """Return the number of an answer; equal ones have the same."""
        answers = self._said
        if answer in answers:
            return answers.index(answer)
        answers.append(answer)
        return len(answers) - 1


class Dependencies:
    """All that was asked of a program for one answer.

    Attributes:
        facts: What was asked, each with the number of the answer, in the order in which it was asked first.
        is_whole: Whether it is the same wherever the search comes from: it did not give up, and did not meet itself.
        is_met: Whether it met what was under way when it began, in a way that no question tells.
        storing: The files that store results in objects.
        is_behind: Whether what is stored behind the place that asks was left out.
    """

    __slots__ = ("facts", "is_behind", "is_met", "is_whole", "storing")

    def __init__(self) -> None:
        self.facts: dict[Question, int] = {}
        self.is_whole = True
        self.is_met = False
        self.storing: frozenset[str] = frozenset()
        self.is_behind = False

    def add(self, other: Dependencies) -> None:
        """Add what another answer depends on, which this one rests on."""
        self.facts |= other.facts
        self.is_whole = self.is_whole and other.is_whole
        self.is_met = self.is_met or other.is_met
        if other.storing:
            self.storing |= other.storing
            self.is_behind = self.is_behind or other.is_behind


class SearchResult(NamedTuple):
    """What was found, what it depends on of the program, and on which parameters it depends.

    Attributes:
        result: What was found.
        dependencies: What was asked of the program.
        asked: The parameters that nothing was given to.
        consulted: What was given to the parameters that decide.
        deepest: How far after the first expression it may begin for the search to come as far again.
        steps: How many expressions and members were looked at.
    """

    result: object
    dependencies: Dependencies
    asked: frozenset[Parameter] = frozenset()
    consulted: Mapping[Parameter, BoundArgument | None] = {}
    deepest: int = 0
    steps: int = 0

    @property
    def depends(self) -> bool:
        """Whether parameters decide."""
        return bool(self.asked or self.consulted)


class SharedTree(Generic[T]):
    """What one search found for several programs, by their answers to what it asked."""

    __slots__ = ("_asks", "_behind", "_found")

    def __init__(self) -> None:
        self._asks: Question | None = None
        self._behind: dict[int, SharedTree[T]] = {}
        self._found: T | None = None

    def find(self, number: Callable[[Question], int]) -> T | None:
        """Return what was found for a program that answers as another one did; None where there was none.

        Args:
            number: Returns the number of the program's answer to a question.
        """
        tree: SharedTree[T] | None = self
        while tree is not None:
            if tree._asks is None:
                return tree._found
            tree = tree._behind.get(number(tree._asks))
        return None

    def keep(self, facts: Mapping[Question, int], result: T) -> None:
        """Keep what was found for a program that gave some answers."""
        rest, tree = dict(facts), self
        while rest:
            if tree._asks is None:
                if tree._found is not None:
                    return
                tree._asks = next(iter(rest))
            elif tree._asks not in rest:
                return  # the other search gave up, or found something kept that this one did not
            tree = tree._behind.setdefault(rest.pop(tree._asks), SharedTree())
        if tree._asks is None:
            tree._found = result


class ParameterTree(Generic[T]):
    """Values by what is given to the parameters that decide, one after the other.

    Which parameter decides next depends on what was given to those before, so that a value is found by as many look-ups
    as parameters decide.
    """

    __slots__ = ("_behind", "value")

    def __init__(self) -> None:
        self.value: T | None = None
        """What holds where this was given, whatever else is."""
        self._behind: dict[Parameter, dict[BoundArgument | None, ParameterTree[T]]] = {}

    def values(self, bound: Mapping[Parameter, BoundArgument]) -> Iterator[T]:
        """Yield the values that hold where some parameters are given."""
        if self.value is not None:
            yield self.value
        for parameter, by_given in self._behind.items():
            behind = by_given.get(bound.get(parameter))
            if behind is not None:
                yield from behind.values(bound)

    def find(self, bound: Mapping[Parameter, BoundArgument]) -> T | None:
        """Return the first of these, or None."""
        if self.value is not None:
            return self.value
        for parameter, by_given in self._behind.items():
            behind = by_given.get(bound.get(parameter))
            value = behind.find(bound) if behind is not None else None
            if value is not None:
                return value
        return None

    def keep(self, consulted: Mapping[Parameter, BoundArgument | None], value: T) -> None:
        """Keep a value, unless one is kept for the same."""
        place = self.at(consulted)
        if place.value is None:
            place.value = value

    def at(self, consulted: Mapping[Parameter, BoundArgument | None]) -> ParameterTree[T]:
        """Return the tree below what was given to some parameters, in this order."""
        tree = self
        for parameter, given in consulted.items():
            by_given = tree._behind.setdefault(parameter, {})
            tree = by_given.get(given) or by_given.setdefault(given, ParameterTree())
        return tree


class GivenTrees(Generic[T]):
    """What one search found, by what was given to the parameters that decided, and by what the program says."""

    __slots__ = ("_tree",)

    def __init__(self) -> None:
        self._tree: ParameterTree[SharedTree[T]] = ParameterTree()

    def find(self, bound: Mapping[Parameter, BoundArgument], number: Callable[[Question], int]) -> T | None:
        """Return what was found where the same was given, for a program that answers the same; else None."""
        for tree in self._tree.values(bound):
            result = tree.find(number)
            if result is not None:
                return result
        return None

    def keep(
        self, consulted: Mapping[Parameter, BoundArgument | None], facts: Mapping[Question, int], result: T
    ) -> None:
        """Keep what was found where something was given."""
        place = self._tree.at(consulted)
        if place.value is None:
            place.value = SharedTree()
        place.value.keep(facts, result)


class SharedResults:
    """What was found for all programs of a project.

    Attributes:
        calls: Where functions are called.
    """

    def __init__(self, sources: Sources) -> None:
        self.calls = CallPlaces(sources)
        self._questions: dict[str, dict[Hashable, Question]] = {}
        self._trees: dict[Hashable, SharedTree[SearchResult]] = {}
        self._given: dict[Hashable, GivenTrees[SearchResult]] = {}

    def question(self, kind: str, name: Hashable) -> Question:
        """Return the question of a kind after something: the same one each time."""
        questions = self._questions.setdefault(kind, {})
        question = questions.get(name)
        if question is None:
            question = questions[name] = Question(kind, name)
        return question

    def tree(self, key: Hashable) -> SharedTree[SearchResult]:
        """Return what was found for an expression or a question; of a large project, only the latest is kept."""
        tree = self._trees.get(key)
        if tree is None:
            if len(self._trees) > _MOST_TREES:  # they hold files that are parsed
                self._trees.clear()
                self._given.clear()
                self._questions.clear()
            tree = self._trees[key] = SharedTree()
        return tree

    def given(self, key: Hashable) -> GivenTrees[SearchResult]:
        """Return what was found for an expression where parameters decide."""
        trees = self._given.get(key)
        if trees is None:
            trees = self._given[key] = GivenTrees()
        return trees


class CachedAnswer(NamedTuple):
    """An answer, what it has asked for that could not be told, and what was given to the parameters it asked for."""

    answer: Answer
    asked: frozenset[Parameter]
    consulted: dict[Parameter, BoundArgument | None]


class SharedAnswers:
    """The answers that were given to the programs of a project, each by what it depends on."""

    def __init__(self) -> None:
        self._told: dict[ast.expr, GivenTrees[CachedAnswer]] = {}

    def find(
        self, test: ast.expr, bound: Mapping[Parameter, BoundArgument], number: Callable[[Question], int]
    ) -> CachedAnswer | None:
        """Return an answer to a condition that holds for a program where some parameters are given, or None."""
        trees = self._told.get(test)
        return trees.find(bound, number) if trees is not None else None

    def keep(self, test: ast.expr, dependencies: Dependencies, answer: CachedAnswer) -> None:
        """Keep an answer for the programs to come: each condition is searched from its own beginning, also where it
        gives up.
        """
        self._told.setdefault(test, GivenTrees()).keep(answer.consulted, dependencies.facts, answer)
