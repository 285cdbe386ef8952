"""What a search for the way from a program to a place holds: where it stands, what it passed, what must still hold."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchferry.core.record import NamedTuple
from torchferry.programs.model import CallPath, Reachability, Step
from torchferry.programs.syntax.parameters import BoundArgument, Parameter
from torchferry.programs.syntax.use_syntax import Place

Unit = tuple[str, int, int, str]
"""A function: its file and place, and the error that is asked for there; a file as a whole has the line 0."""


class PendingCondition(NamedTuple):
    """A condition on the way that could not be told yet: it asks for parameters that a call further on gives."""

    path: str
    expression: ast.expr
    wanted: bool


class PassedUnit(NamedTuple):
    """A function or file on a way, passed with no condition left to be told.

    Attributes:
        unit: The function or file.
        steps: How many steps lie between it and the place that is looked for.
        is_free: Whether nothing had to hold so far.
        last: The one that was passed before it; None where there is none.
    """

    unit: Unit
    steps: int
    is_free: bool
    last: PassedUnit | None


class Search:
    """What one search has come to.

    Attributes:
        worst: The least sure way that is asked for.
        error: The exception that the place raises; empty where that is not known.
        is_told: Whether all steps of the way are told: not where it is enough that it may be taken.
        seen: What was asked already.
        passed: The functions and files from which was searched with no condition left to be told.
        waiting: What is still to be looked at, the surest and nearest first.
        is_cut: Whether it ended before everything was looked at.
        last: How sure the way to the last place was that it looked at.
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
        """Return with how few steps was met what leads to something, with None what is met whatever it leads to."""
        nearest = self._steps.get(of)
        if nearest is None:
            nearest = self._steps[of] = {}
        return nearest


class SearchState(NamedTuple):
    """Where a search stands, with what lies between that and the place which is looked for.

    Attributes:
        place: Where it stands.
        reachability: How sure the path is so far.
        steps: The places on it.
        options: What must be said on the command line.
        choices: What must be chosen, and nobody can tell.
        tests: Conditions that a call further on decides.
        given: What the calls on it give to parameters.
        passed: The functions and files on it.
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
        """Return the way that is complete here: what could not be told on it depends on a choice."""
        reachability = max(self.reachability, Reachability.CHOSEN) if self.tests else self.reachability
        conditions = dict.fromkeys((*self.choices, *map(texts, self.tests)))
        return CallPath(reachability, self.steps, tuple(conditions), self.options)
