"""The records of a search for the path from a program to a place: position, passed functions, open conditions."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchferry.core.record import NamedTuple
from torchferry.programs.model import CallPath, Reachability, Step
from torchferry.programs.syntax.parameters import BoundArgument, Parameter
from torchferry.programs.syntax.use_syntax import Place

Unit = tuple[str, int, int, str]
"""A function: its file and place, and the error that is searched for there; a whole file has the line 0."""


class PendingCondition(NamedTuple):
    """A condition on the path that cannot be evaluated yet: it depends on parameters that an outer call passes."""

    path: str
    expression: ast.expr
    wanted: bool


class PassedUnit(NamedTuple):
    """A function or file on a path that was passed without an open condition.

    Attributes:
        unit: The function or file.
        steps: The number of steps between it and the target place.
        is_free: Whether no condition applied so far.
        last: The unit that was passed before it; None for none.
    """

    unit: Unit
    steps: int
    is_free: bool
    last: PassedUnit | None


class Search:
    """The progress of one search.

    Attributes:
        worst: The least sure reachability that is accepted.
        error: The exception that the place raises; empty where it is not known.
        is_told: Whether all steps of the path are recorded: not where any possible path is enough.
        seen: The states that were visited.
        passed: The functions and files that the search left without an open condition.
        waiting: The states to visit, the surest and nearest first.
        is_cut: Whether the search ended before it visited everything.
        last: The reachability of the last visited place.
    """

    def __init__(self, worst: Reachability, error: str) -> None:
        self.worst = worst
        self.error = error
        self.is_told = worst is not Reachability.CHOSEN
        self.waiting: list[tuple[Reachability, int, int, SearchState | CallPath, PassedUnit | None]] = []
        self.is_cut = False
        self.last = Reachability.ALWAYS
        self.seen: set[object] = set()
        self.passed: set[Unit] = set()
        self._steps: dict[object, dict[object, int]] = {}

    def is_nearer(self, key: object, steps: int) -> bool:
        """Whether something was not met with as few steps before."""
        nearest = self.nearest(None)
        shortest = nearest.get(key)
        if shortest is not None and shortest <= steps:
            return False
        nearest[key] = steps
        return True

    def nearest(self, of: object) -> dict[object, int]:
        """Return, for each unit, the fewest steps to a place that reaches it; None represents places of any kind."""
        nearest = self._steps.get(of)
        if nearest is None:
            nearest = self._steps[of] = {}
        return nearest


class SearchState(NamedTuple):
    """The position of a search, with the path between it and the target place.

    Attributes:
        place: The position.
        reachability: How sure the path is so far.
        steps: The places on it.
        options: The required command-line options.
        choices: The required choices, which cannot be evaluated.
        tests: Conditions that an outer call decides.
        given: The arguments that the calls on the path pass to parameters.
        passed: The functions and files on the path.
    """

    place: Place
    reachability: Reachability = Reachability.ALWAYS
    steps: tuple[Step, ...] = ()
    options: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    tests: tuple[PendingCondition, ...] = ()
    given: tuple[tuple[Parameter, BoundArgument], ...] = ()
    passed: PassedUnit | None = None

    @property
    def is_free(self) -> bool:
        """Whether nothing has to hold so far."""
        return self.reachability is Reachability.ALWAYS and not (self.tests or self.options or self.choices)

    @property
    def memo_key(self) -> object:
        """All on which it depends what leads here: of two that agree in it, the first one that is met is the better."""
        return (
            (self.place, self.reachability, self.tests, self.given) if self.tests else (self.place, self.reachability)
        )

    # much is met on a search, and `_replace` takes several times as long as a new one

    def at(self, place: Place) -> SearchState:
        """Return the arrival at another place."""
        _, reachability, steps, options, choices, tests, given, passed = self
        return SearchState(place, reachability, steps, options, choices, tests, given, passed)

    def preceded_by(self, step: Step) -> SearchState:
        """Return the arrival with one more step."""
        place, reachability, steps, options, choices, tests, given, passed = self
        return SearchState(place, reachability, (step, *steps), options, choices, tests, given, passed)

    def passing(self, unit: Unit) -> SearchState:
        """Return the arrival with a function or file that it passes."""
        return SearchState(*self[:-1], passed=PassedUnit(unit, len(self.steps), self.is_free, self.passed))

    def behind(self, before: CallPath) -> CallPath:
        """Return the way whose first part is known."""
        return CallPath(
            max(self.reachability, before.reachability),
            (*before.steps, *self.steps),
            tuple(dict.fromkeys((*before.conditions, *self.choices))),
            tuple(dict.fromkeys((*before.options, *self.options))),
        )

    def call_path(self, texts: Callable[[PendingCondition], str]) -> CallPath:
        """Return the complete path: a condition that could not be evaluated makes it depend on a choice."""
        reachability = max(self.reachability, Reachability.CHOSEN) if self.tests else self.reachability
        conditions = dict.fromkeys((*self.choices, *map(texts, self.tests)))
        return CallPath(reachability, self.steps, tuple(conditions), self.options)
